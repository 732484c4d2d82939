//! Tests of random days of a node: a pod is bound only where it fits into the published allocatable.
//! The estimator, the server half and a scheduler that fills all free room run together under random faults.
//!
//! A run is a row of random steps over days of 24 frames each: pods come, are deleted, end by themselves, ask for more
//! or less, and use any amount; brakes fire; streams break, replicas die, restart or receive no events, the agent
//! starts again with and without its checkpoint. The estimator, the conversions of the wire, the stores, the hint table
//! and the rules of capacity are the real ones; kernel, API server, kubelet and scheduler are modelled. The checks do
//! not share code with the decisions: see [`check`].
//!
//! `HEADROOM_DAYS` sets the number of runs, `HEADROOM_SEED` the start of the series; a failure prints the seed and the
//! shortest row of steps that still fails.

mod agent;
mod check;
mod deferred;
mod node_and_pods;
mod recorded;
mod replica;
mod world;
mod write;

use std::{env, thread};

use headroom_domain::{
    policy::{Bounds, Mode},
    ratio::Cents,
    resource::PerResource,
};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    test_runner::{Config, RngSeed, TestError, TestRunner},
};

use self::world::SimulatedWorld;

/// Runs, unless the environment says otherwise.
const RUNS: u32 = 1_000;
/// Seed of the series, unless the environment sets one.
const SEED: u64 = 29;
/// The most steps of a run.
const LONGEST: usize = 60;
/// Threads that share the runs.
const THREADS: u32 = 2;

/// One thing that happens. Numbers that name a pod are indexes, taken modulo how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DayStep {
    /// This number of frames passes.
    Frames(u64),
    /// A pod uses that share of what it asks for, in percent; its peaks are that much higher.
    Use { pod: usize, percent: u64, burst: u64 },
    /// A pod is deleted; it is gone that many frames later.
    Delete { pod: usize, frames: u64 },
    /// A pod ends by itself.
    End(usize),
    /// A pod is resized to that share of what it asks for, in percent.
    Resize { pod: usize, percent: u64 },
    /// Trouble for this number of brake periods.
    Trouble { trouble: Trouble, periods: u64 },
    /// The kubelet says that memory is under pressure, or not any more.
    MemoryPressure(bool),
    /// The agent's stream to a replica ends or is opened.
    Stream { replica: usize, is_open: bool },
    /// The agent restarts: from its checkpoint or without one, on the same boot or on another.
    StartAgain { is_known: bool, is_other_boot: bool },
    /// The agent is stopped for this number of frames.
    Freeze(u64),
    /// The API server's calls go to this replica.
    Route(usize),
    /// A replica restarts and loses its hints.
    StartAnew(usize),
    /// A replica's watches stop delivering, or catch up.
    Deaf { replica: usize, is_deaf: bool },
    /// The kubelet writes what it finds.
    Sync,
}

/// Cause of a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// CPUs are contended: L1, L2 or L3.
    Cpu(u8),
    /// Little memory is available: L1, L2 or L3.
    Memory(u8),
    /// Something is killed for want of memory.
    Oom,
}

/// A node and what happens to it.
#[derive(Debug, Clone)]
struct SimulatedDays {
    /// Raw allocatable, in milli-cores and MiB.
    raw: (u64, u64),
    /// Reserved share, in percent.
    reserved: u64,
    mode: Mode,
    bounds: PerResource<Bounds>,
    /// Requests of the waiting pods, in milli-cores and MiB, used in turn.
    waiting: Vec<(u64, u64)>,
    steps: Vec<DayStep>,
}

fn step() -> impl Strategy<Value = DayStep> {
    let pod = || 0..16_usize;
    let replica = || 0..2_usize;
    prop_oneof![
        12 => (1..10_u64).prop_map(DayStep::Frames),
        8 => (pod(), 0..130_u64, 0..60_u64).prop_map(|(pod, percent, burst)| DayStep::Use { pod, percent, burst }),
        4 => (pod(), 0..4_u64).prop_map(|(pod, frames)| DayStep::Delete { pod, frames }),
        2 => pod().prop_map(DayStep::End),
        2 => (pod(), 20..300_u64).prop_map(|(pod, percent)| DayStep::Resize { pod, percent }),
        3 => (trouble(), 1..6_u64).prop_map(|(trouble, periods)| DayStep::Trouble { trouble, periods }),
        1 => any::<bool>().prop_map(DayStep::MemoryPressure),
        3 => (replica(), any::<bool>()).prop_map(|(replica, is_open)| DayStep::Stream { replica, is_open }),
        1 => (any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(is_known, is_other_boot)| DayStep::StartAgain { is_known, is_other_boot }),
        1 => (1..5_u64).prop_map(DayStep::Freeze),
        2 => replica().prop_map(DayStep::Route),
        1 => replica().prop_map(DayStep::StartAnew),
        2 => (replica(), any::<bool>()).prop_map(|(replica, is_deaf)| DayStep::Deaf { replica, is_deaf }),
        3 => Just(DayStep::Sync),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        3 => (1..=3_u8).prop_map(Trouble::Cpu),
        2 => (1..=3_u8).prop_map(Trouble::Memory),
        1 => Just(Trouble::Oom),
    ]
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let least = prop_oneof![1 => Just(100_u32), 1 => 50..=100_u32];
    let most = prop_oneof![1 => Just(200_u32), 1 => 100..=300_u32];
    (least, most).prop_map(|(least, most)| Bounds {
        min: Cents(least),
        max: Cents(most),
    })
}

fn run() -> impl Strategy<Value = SimulatedDays> {
    let amounts = (500..40_000_u64, 1_000..60_000_u64);
    let sizes = (1..40_u64, 1..40_u64);
    (
        amounts,
        0..20_u64,
        (bounds(), option::weighted(0.7, bounds())),
        vec(sizes, 1..12),
        vec(step(), 1..LONGEST),
    )
        .prop_map(|(raw, reserved, (cpu, memory), sizes, steps)| SimulatedDays {
            raw,
            reserved,
            mode: Mode::Auto,
            bounds: PerResource {
                cpu,
                memory: memory.unwrap_or(Bounds::OFF),
            },
            // From one to forty percent of the node.
            waiting: sizes
                .into_iter()
                .map(|(cpu, memory)| (raw.0 * cpu / 100, raw.1 * memory / 100))
                .collect(),
            steps,
        })
}

impl SimulatedDays {
    /// Runs the days; an error describes the first violation.
    fn check(&self) -> Result<(), String> {
        let mut world = SimulatedWorld::new(self, agent::short_days());
        world
            .apply(DayStep::Frames(1))
            .map_err(|wrong| format!("at first: {wrong}"))?;
        for (at, step) in self.steps.iter().enumerate() {
            world
                .apply(*step)
                .map_err(|wrong| format!("step {at}, {step:?}: {wrong}"))?;
        }
        world
            .settle()
            .map_err(|wrong| format!("when all is heard: {wrong}"))
    }
}

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
    )
}

/// Runs a series; an error contains the shortest failing run and its violation.
fn series(seed: u64, runs: u32) -> Result<(), (String, SimulatedDays)> {
    let config = Config {
        cases: runs,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 5_000,
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
fn what_is_bound_fits_into_what_is_published_through_days_of_anything() {
    let runs = setting("HEADROOM_DAYS").map_or(RUNS, |runs| u32::try_from(runs).unwrap());
    let seed = setting("HEADROOM_SEED").unwrap_or(SEED);
    let failed = thread::scope(|scope| {
        let threads: Vec<_> = (0..u64::from(THREADS))
            .map(|thread| {
                let seed = seed + thread;
                (seed, scope.spawn(move || series(seed, runs.div_ceil(THREADS))))
            })
            .collect();
        threads
            .into_iter()
            .find_map(|(seed, thread)| Some((seed, thread.join().expect("a series").err()?)))
    });
    if let Some((seed, (reason, run))) = failed {
        panic!("seed {seed}: {reason}\n{run:#?}");
    }
}
