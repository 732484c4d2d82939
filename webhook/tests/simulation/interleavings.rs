//! Tests of random interleavings of writes of one Node: allocatable is raw or amplified once, and finally follows the
//! rules.
//!
//! A run is a row of random steps: a kubelet that compares with an old copy of its Node, others that write the status
//! or forge the raw value, the marker or the hint, pods that any user binds and the kubelet admits, ratios, modes and
//! policies that change, hints that arrive, age, lie and expire, nudges that are late, replicas that die, restart or are
//! behind, the floor policy, Nodes that are made again. Every write of the status goes through the real router and
//! steps, each replica has its own real stores, and the real rules ask for the nudges and sweeps; the API server, the
//! kubelet and the floor policy are modelled. After each write the stored Node is compared with the values that
//! [`oracle`] allows, and in the end, when all is quiet, with the values that it must have.
//!
//! `HEADROOM_INTERLEAVINGS` sets the number of runs, `HEADROOM_SEED` the start of the series; a failure prints the seed
//! and the shortest row of steps that still fails. CI runs 10,000, `cargo xtask test --long interleavings` 100,000.
//!
//! The model is frozen: no new steps are added. A failure that is the model's own fault is fixed only if it hides a
//! fault of the webhook.

mod floor;
mod forge;
mod model_pods;
mod node;
mod oracle;
mod recorded_runs;
mod replica;
mod world;

use std::{env, thread};

use proptest::{
    collection::vec,
    option,
    prelude::*,
    test_runner::{Config, RngSeed, TestError, TestRunner},
};

use self::world::ModelWorld;

/// Runs, unless the environment says otherwise.
const RUNS: u32 = 10_000;
/// Seed of the series, unless the environment sets one.
const SEED: u64 = 17;
/// The most steps of a run before all is quiet.
const LONGEST: usize = 40;
/// Threads that share the runs.
const THREADS: u32 = 2;

/// One thing that happens. Numbers are indexes, taken modulo what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelStep {
    Wait(u16),
    /// The kubelet compares its status with the Node as it was `lag` revisions ago, and writes what differs.
    Sync {
        lag: usize,
    },
    /// Like a heartbeat, but written even without changes: every 5 minutes.
    Report {
        lag: usize,
    },
    /// The kubelet starts: it reads its Node and reports.
    Restart,
    /// The machine gets another size.
    Machine(usize),
    /// Capacity and raw values grow so that raw CPU becomes what is stored now.
    RawBecomesStored,
    /// Another client writes the status.
    Others(Others),
    /// A user sets or removes an annotation.
    Annotate(Annotation),
    /// A user with the right to patch nodes forges the webhook's annotations, while no check refuses it.
    Forge(Forgery),
    Pods(model_pods::PodChange),
    /// A policy comes into force on one replica, or on both.
    Policy {
        policy: usize,
        replica: Option<usize>,
    },
    /// The agent reports to one replica, or to both; or one reports that speaks for the Node of an earlier life.
    Hint {
        cents: usize,
        replica: Option<usize>,
        is_of_old_life: bool,
        exclusive: usize,
    },
    /// The agent speaks of another machine for longer than that is forgiven.
    Lies {
        cents: usize,
        replica: Option<usize>,
    },
    /// The agent's stream to a replica ends.
    Leave(usize),
    /// A replica nudges, if that is due.
    Nudge(usize),
    /// A replica sends a nudge, if that is due, and it is on its way for a while.
    Send(usize),
    /// A replica's write arrives.
    Arrive(usize),
    /// A replica sweeps as leader, if anything is amiss.
    Sweep(usize),
    /// A replica observes the Node.
    Hear(usize),
    /// A replica restarts and loses its hints.
    StartAnew(usize),
    /// A replica starts without any watch event.
    StartBlind(usize),
    /// A replica goes, or comes back as it was.
    Outage {
        replica: usize,
        is_over: bool,
    },
    /// The API server's calls go to this replica.
    Route(usize),
    /// The floor policy is installed or removed.
    Floor(bool),
    /// The Node is deleted and made again, by its kubelet or by a human from a copy with all annotations.
    Recreate {
        is_copy: bool,
    },
}

/// A write of the status that is no sync of the kubelet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// The node-problem-detector sets a condition of its own.
    Problem,
    /// A device plugin's resource comes or goes, by the kubelet's hand.
    Device,
    /// The cloud controller writes an address.
    Address(u8),
    /// A human sets allocatable CPU by hand.
    Edit(usize),
    /// A human takes allocatable CPU back to what it was `lag` revisions ago.
    Revert { lag: usize },
}

/// Content of a forgery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgery {
    /// The raw annotation: far more than the node has.
    Raw,
    /// The marker's values: more than is stored.
    Written,
    /// The marker's raw values: all that the node has.
    Origin,
    /// The marker's raw values: a quarter of what the kubelet says.
    Quarter,
    /// Both: what the kubelet sends was written by us, and came from all that the node has.
    Both,
    Nothing,
    /// The hint: five times what there is.
    Hint,
}

/// An annotation that people write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Annotation {
    /// The ratios of both resources.
    Ratio(Option<usize>),
    Mode(Option<usize>),
}

/// A run: what happens, and how it ends.
#[derive(Debug, Clone)]
struct ModelRun {
    steps: Vec<ModelStep>,
    quiet: Quiet,
}

/// Reports at the end of a run.
#[derive(Debug, Clone, Copy)]
struct Quiet {
    /// Number of replicas that receive reports: none, one, or both.
    streams: usize,
    /// The ratio that they ask for.
    cents: usize,
    /// Exclusive CPUs of pods.
    exclusive: usize,
    /// True if they are of another machine.
    are_lies: bool,
}

impl Quiet {
    const UNHEARD: Self = Self {
        streams: 0,
        cents: 0,
        exclusive: 0,
        are_lies: false,
    };
    const HEARD_BY_ONE: Self = Self {
        streams: 1,
        ..Self::UNHEARD
    };
}

/// Mostly no CPU is held by a pod for itself.
fn exclusive() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0_usize), 1 => 1..3_usize]
}

fn step() -> impl Strategy<Value = ModelStep> {
    let index = 0..8_usize;
    let replica = 0..2_usize;
    let lag = prop_oneof![3 => Just(0_usize), 2 => 1..6_usize];
    let which = || prop_oneof![1 => Just(None), 1 => (0..2_usize).prop_map(Some)];
    prop_oneof![
        3 => prop_oneof![4 => 1..40_u16, 2 => 40..400_u16, 1 => 400..4_000_u16].prop_map(ModelStep::Wait),
        8 => lag.clone().prop_map(|lag| ModelStep::Sync { lag }),
        3 => lag.clone().prop_map(|lag| ModelStep::Report { lag }),
        1 => Just(ModelStep::Restart),
        2 => index.clone().prop_map(ModelStep::Machine),
        1 => Just(ModelStep::RawBecomesStored),
        2 => Just(ModelStep::Others(Others::Problem)),
        1 => Just(ModelStep::Others(Others::Device)),
        1 => any::<u8>().prop_map(|last| ModelStep::Others(Others::Address(last))),
        1 => index.clone().prop_map(|edit| ModelStep::Others(Others::Edit(edit))),
        1 => lag.prop_map(|lag| ModelStep::Others(Others::Revert { lag })),
        3 => option::of(index.clone()).prop_map(|ratio| ModelStep::Annotate(Annotation::Ratio(ratio))),
        2 => option::of(index.clone()).prop_map(|mode| ModelStep::Annotate(Annotation::Mode(mode))),
        2 => prop_oneof![
            Just(Forgery::Raw),
            Just(Forgery::Written),
            Just(Forgery::Origin),
            Just(Forgery::Quarter),
            Just(Forgery::Both),
            Just(Forgery::Nothing),
            Just(Forgery::Hint),
        ]
        .prop_map(ModelStep::Forge),
        6 => prop_oneof![
            3 => index.clone().prop_map(model_pods::PodChange::Bind),
            3 => Just(model_pods::PodChange::Admit),
            2 => (index.clone(), index.clone()).prop_map(|(pod, size)| model_pods::PodChange::Resize { pod, size }),
            1 => index.clone().prop_map(model_pods::PodChange::End),
        ]
        .prop_map(ModelStep::Pods),
        2 => (index.clone(), which()).prop_map(|(policy, replica)| ModelStep::Policy { policy, replica }),
        4 => (index.clone(), which(), prop::bool::weighted(0.1), exclusive()).prop_map(
            |(cents, replica, is_of_old_life, exclusive)| ModelStep::Hint {
                cents,
                replica,
                is_of_old_life,
                exclusive,
            }
        ),
        1 => (index, which()).prop_map(|(cents, replica)| ModelStep::Lies { cents, replica }),
        1 => replica.clone().prop_map(ModelStep::Leave),
        3 => replica.clone().prop_map(ModelStep::Nudge),
        2 => replica.clone().prop_map(ModelStep::Send),
        2 => replica.clone().prop_map(ModelStep::Arrive),
        2 => replica.clone().prop_map(ModelStep::Sweep),
        4 => replica.clone().prop_map(ModelStep::Hear),
        1 => replica.clone().prop_map(ModelStep::StartAnew),
        1 => replica.clone().prop_map(ModelStep::StartBlind),
        3 => (replica.clone(), any::<bool>()).prop_map(|(replica, is_over)| ModelStep::Outage { replica, is_over }),
        3 => replica.prop_map(ModelStep::Route),
        1 => any::<bool>().prop_map(ModelStep::Floor),
        1 => any::<bool>().prop_map(|is_copy| ModelStep::Recreate { is_copy }),
    ]
}

fn run() -> impl Strategy<Value = ModelRun> {
    let quiet = (0..3_usize, 0..8_usize, exclusive(), prop::bool::weighted(0.1)).prop_map(
        |(streams, cents, exclusive, are_lies)| Quiet {
            streams,
            cents,
            exclusive,
            are_lies,
        },
    );
    (vec(step(), 1..LONGEST), quiet).prop_map(|(steps, quiet)| ModelRun { steps, quiet })
}

impl ModelRun {
    /// Runs the steps; an error describes the first violation.
    fn check(&self) -> Result<(), String> {
        let mut world = ModelWorld::new();
        for step in &self.steps {
            world.apply(*step).map_err(|wrong| format!("{step:?}: {wrong}"))?;
        }
        world
            .be_quiet(self.quiet)
            .map_err(|wrong| format!("when all is quiet: {wrong}"))
    }
}

/// A number from the environment.
pub(crate) fn setting(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
    )
}

/// Runs a series; an error contains the shortest failing run and its violation.
fn series(seed: u64, runs: u32) -> Result<(), (String, ModelRun)> {
    let config = Config {
        cases: runs,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let checked = TestRunner::new(config).run(&run(), |run| run.check().map_err(TestCaseError::fail));
    match checked {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, run)) => Err((reason.to_string(), run)),
        Err(TestError::Abort(reason)) => panic!("no runs: {reason}"),
    }
}

#[test]
fn allocatable_is_always_raw_or_amplified_once_whatever_happens_in_whatever_order() {
    let runs = setting("HEADROOM_INTERLEAVINGS").map_or(RUNS, |runs| u32::try_from(runs).unwrap());
    let seed = setting("HEADROOM_SEED").unwrap_or(SEED);
    let seeds: Vec<u64> = (0..u64::from(THREADS)).map(|thread| seed + thread).collect();
    let failed = thread::scope(|scope| {
        let threads: Vec<_> = seeds
            .iter()
            .map(|&seed| (seed, scope.spawn(move || series(seed, runs.div_ceil(THREADS)))))
            .collect();
        threads
            .into_iter()
            .find_map(|(seed, thread)| Some((seed, thread.join().expect("a series").err()?)))
    });
    if let Some((seed, (reason, run))) = failed {
        panic!("seed {seed}: {reason}\n{run:?}");
    }
}
