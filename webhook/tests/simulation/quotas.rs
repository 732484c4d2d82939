//! Tests of random interleavings around ElasticQuotas: requests of all kinds, answers that are lost, requests that fail after
//! they were admitted, dry runs, retries, and a watch that lags, in one replica.
//!
//! Router, steps, rules, quota index and pending admissions are the real ones; API server and time are modelled. After
//! each step an oracle that shares no code with the decisions checks the stored objects: see [`oracle`].
//!
//! `HEADROOM_QUOTAS` sets the number of runs, `HEADROOM_SEED` the start of the series; a failure prints the seed and the
//! shortest row of steps that still fails. CI runs 10,000, `cargo xtask test --long quotas` 1,000,000.
//!
//! The model is frozen: no new steps are added. A failure that is the model's own fault is fixed only if it hides a
//! fault of the webhook.

mod oracle;
mod world;

use std::thread;

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngSeed, TestError, TestRunner},
};

use self::world::{QuotaWorld, RequestFate, SpecChange};
use crate::interleavings::setting;

/// Runs, unless the environment says otherwise.
const RUNS: u32 = 10_000;
/// Seed of the series, unless the environment sets one.
const SEED: u64 = 31;
/// The most steps of a run.
const LONGEST: usize = 40;
/// Threads that share the runs.
const THREADS: u32 = 2;

/// One thing that happens. Numbers name quotas, namespaces and amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TreeStep {
    Create {
        name: u8,
        namespace: u8,
        parent: Option<u8>,
        is_parent: bool,
        min: u8,
        listed: Option<u8>,
        fate: RequestFate,
    },
    Update {
        at: usize,
        change: SpecChange,
        fate: RequestFate,
    },
    /// A stored quota is removed; one with a finalizer stays for a while.
    Delete {
        at: usize,
        has_finalizer: bool,
        fate: RequestFate,
    },
    /// A finalizer of a quota that is being removed is done.
    Finalize(usize),
    /// A scheduler writes a status.
    Status(usize),
    /// The watch delivers this number of events.
    Deliver(usize),
    /// The watch lists all objects again.
    Relist,
    /// This number of seconds passes.
    Wait(u8),
}

fn fate() -> impl Strategy<Value = RequestFate> {
    prop_oneof![
        6 => Just(RequestFate::Stored),
        1 => Just(RequestFate::StoredAfterRetry),
        1 => Just(RequestFate::DryRun),
        1 => Just(RequestFate::RefusedLater),
        1 => Just(RequestFate::AnswerLost),
    ]
}

fn change() -> impl Strategy<Value = SpecChange> {
    prop_oneof![
        3 => (0_u8..12).prop_map(SpecChange::Min),
        2 => proptest::option::of(0_u8..6).prop_map(SpecChange::Parent),
        1 => any::<bool>().prop_map(SpecChange::IsParent),
        1 => proptest::option::of(0_u8..3).prop_map(SpecChange::Lists),
    ]
}

fn step() -> impl Strategy<Value = TreeStep> {
    let create = (
        0_u8..6,
        0_u8..2,
        proptest::option::of(0_u8..6),
        any::<bool>(),
        0_u8..12,
        proptest::option::weighted(0.2, 0_u8..3),
        fate(),
    );
    prop_oneof![
        8 => create.prop_map(|(name, namespace, parent, is_parent, min, listed, fate)| TreeStep::Create {
            name, namespace, parent, is_parent, min, listed, fate,
        }),
        6 => (any::<usize>(), change(), fate()).prop_map(|(at, change, fate)| TreeStep::Update { at, change, fate }),
        3 => (any::<usize>(), any::<bool>(), fate())
            .prop_map(|(at, has_finalizer, fate)| TreeStep::Delete { at, has_finalizer, fate }),
        1 => any::<usize>().prop_map(TreeStep::Finalize),
        1 => any::<usize>().prop_map(TreeStep::Status),
        5 => (1_usize..4).prop_map(TreeStep::Deliver),
        1 => Just(TreeStep::Relist),
        1 => (1_u8..40).prop_map(TreeStep::Wait),
    ]
}

/// Runs the steps; an error describes the first violation.
fn check(steps: &[TreeStep]) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut world = QuotaWorld::new();
        for step in steps {
            world
                .apply(*step)
                .await
                .map_err(|wrong| format!("{step:?}: {wrong}"))?;
        }
        world
            .settle()
            .await
            .map_err(|wrong| format!("when all is quiet: {wrong}"))
    })
}

/// Runs a series; an error contains the shortest failing run and its violation.
fn series(seed: u64, runs: u32) -> Result<(), (String, Vec<TreeStep>)> {
    let config = Config {
        cases: runs,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let steps = vec(step(), 1..LONGEST);
    match TestRunner::new(config).run(&steps, |steps| check(&steps).map_err(TestCaseError::fail)) {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, steps)) => Err((reason.to_string(), steps)),
        Err(TestError::Abort(reason)) => panic!("no runs: {reason}"),
    }
}

#[test]
fn a_tree_of_quotas_keeps_its_rules_whatever_happens_in_whatever_order() {
    let runs = setting("HEADROOM_QUOTAS").map_or(RUNS, |runs| u32::try_from(runs).unwrap());
    let seed = setting("HEADROOM_SEED").unwrap_or(SEED);
    let failed = thread::scope(|scope| {
        let threads: Vec<_> = (seed..seed + u64::from(THREADS))
            .map(|seed| (seed, scope.spawn(move || series(seed, runs.div_ceil(THREADS)))))
            .collect();
        let mut threads = threads.into_iter();
        threads.find_map(|(seed, thread)| Some((seed, thread.join().expect("a series").err()?)))
    });
    if let Some((seed, (reason, steps))) = failed {
        panic!("seed {seed}: {reason}\n{steps:#?}");
    }
}
