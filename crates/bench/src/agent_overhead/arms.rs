//! Measures CPU time per context switch with different kernel programs attached (the arms), in many turns. Each turn
//! runs every arm once, in a random order.

use std::{collections::BTreeMap, thread, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use headroom_agent::{
    kernel::probe::{
        Hook, Options, Probe, Runs,
        bench::{Peer, Shape},
    },
    sample::{STAT_EVERY, Sampler, clock::Clocks, procfs::Procfs, ring},
};
use headroom_testbed::ping_pong::{self, Round};
use rand::{Rng, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};
use xtask::terminal::print;

use crate::statistics::{ascending, percentile};

const TURNS: usize = 250;
/// Rounds of each arm during which the kernel counts the run time of the programs.
pub(super) const COUNTED: usize = 100;
/// Length of a round: shorter than typical disturbances of a CPU, such as load on its sibling, so that a disturbance
/// affects all arms of a turn alike.
pub(super) const ROUND: Duration = Duration::from_millis(20);
/// Interval of polls. On nearly full CPUs the agent polls every 250 ms and samples other tasks after each poll. In a
/// round the two threads shall see as many sampling decisions as they would in seconds.
const POLL: Duration = Duration::from_millis(2);
/// Sampling shift that selects hardly any task: one in 2^16.
const RARELY: u32 = 16;
/// Seed of the arms' order, the same in each run.
pub(super) const SEED: u64 = 0x6865_6164_726f_6f6d;

/// Programs attached during a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arm {
    Detached,
    DetachedAgain,
    /// The agent's programs as attached while CPUs are nearly full.
    Attached,
    /// The agent's programs as attached on all other nodes: without wake-up hooks.
    Calm,
    /// The agent's programs with hardly any task sampled.
    Unsampled,
    /// The agent's programs with every task sampled.
    AllSampled,
    /// An empty program at `sched_switch`.
    Empty,
    /// An empty program at each hook of run-queue latency.
    EmptyHooks,
    /// Run-queue latency with a hash map, a common design.
    Hash,
}

#[derive(Debug)]
pub(super) struct Turns(Vec<RoundByArm>);

type RoundByArm = BTreeMap<Arm, Round>;

#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub(super) p25: f64,
    pub(super) p50: f64,
    pub(super) p75: f64,
}

enum Programs {
    /// The agent's programs with their reader.
    Ours {
        probe: Box<Probe>,
        sampler: Sampler,
        has_wake_ups: bool,
    },
    Peer(Peer),
}

impl Arm {
    pub(super) const ALL: [Self; 9] = [
        Self::Detached,
        Self::DetachedAgain,
        Self::Attached,
        Self::Calm,
        Self::Unsampled,
        Self::AllSampled,
        Self::Empty,
        Self::EmptyHooks,
        Self::Hash,
    ];

    /// All arms in a random order, for one turn.
    fn order(random: &mut impl Rng) -> Vec<Self> {
        let mut order = Self::ALL.to_vec();
        order.shuffle(random);
        order
    }

    /// Loads the programs of the arm, detached.
    fn load(self, program_stats: bool) -> Result<Option<Programs>> {
        let has_wake_ups = self != Self::Calm;
        let ours = |sampling_shift| Programs::ours(sampling_shift, has_wake_ups, program_stats).map(Some);
        let peer = |shape| Ok(Some(Programs::Peer(Peer::load(shape, program_stats)?)));
        match self {
            Self::Detached | Self::DetachedAgain => Ok(None),
            Self::Attached | Self::Calm => ours(ring::SAMPLING_SHIFT),
            Self::Unsampled => ours(RARELY),
            Self::AllSampled => ours(0),
            Self::Empty => peer(Shape::Empty),
            Self::EmptyHooks => peer(Shape::EmptyHooks),
            Self::Hash => peer(Shape::Hash),
        }
    }
}

impl Turns {
    pub(super) fn run(cpu: u32) -> Result<Self> {
        let mut programs = BTreeMap::new();
        for arm in Arm::ALL {
            if let Some(loaded) = arm.load(false)? {
                programs.insert(arm, loaded);
            }
        }
        let mut random = StdRng::seed_from_u64(SEED);
        print(format!("{TURNS} turns of {} rounds on CPU {cpu}", Arm::ALL.len()));
        let mut turn = || -> Result<RoundByArm> {
            let rounds = Arm::order(&mut random).into_iter();
            rounds
                .map(|arm| Ok((arm, round(cpu, programs.get_mut(&arm))?)))
                .collect()
        };
        // The first turn fills caches and does not count.
        turn()?;
        Ok(Self((0..TURNS).map(|_| turn()).collect::<Result<_>>()?))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn median(&self, arm: Arm, figure: fn(&Round) -> f64) -> f64 {
        Spread::from_figures(self.0.iter().filter_map(|turn| turn.get(&arm).map(figure))).p50
    }

    /// Difference in nanoseconds per switch between two arms of the same turn.
    pub(super) fn delta(&self, with: Arm, without: Arm) -> Spread {
        Spread::from_figures(self.0.iter().filter_map(|turn| {
            let (with, without) = (turn.get(&with)?, turn.get(&without)?);
            Some(with.switch_ns() - without.switch_ns())
        }))
    }
}

impl Spread {
    fn from_figures(figures: impl Iterator<Item = f64>) -> Self {
        let figures = ascending(figures);
        Self {
            p25: percentile(&figures, 25),
            p50: percentile(&figures, 50),
            p75: percentile(&figures, 75),
        }
    }
}

impl Programs {
    fn ours(sampling_shift: u32, has_wake_ups: bool, program_stats: bool) -> Result<Self> {
        let mut probe = Probe::load(&Options {
            program_stats,
            ..Options::default()
        })?;
        let maps = probe.take_maps().context("the probe's maps are already in use")?;
        let source = ring::RingSource::new(maps, sampling_shift, probe.attached_ns())?;
        let sampler = Sampler::new(Box::new(source), Procfs::default(), STAT_EVERY, Clocks::read())?;
        probe.detach();
        Ok(Self::Ours {
            probe: Box::new(probe),
            sampler,
            has_wake_ups,
        })
    }

    fn attach(&mut self) -> Result<()> {
        match self {
            Self::Ours {
                probe, has_wake_ups, ..
            } => {
                probe.attach()?;
                if !*has_wake_ups {
                    probe.detach_from(&Hook::WAKE_UPS);
                }
                Ok(())
            }
            Self::Peer(peer) => Ok(peer.attach()?),
        }
    }

    /// Reads the counters like the agent does.
    fn poll(&mut self) -> Result<()> {
        match self {
            Self::Ours { sampler, .. } => sampler.poll(Clocks::read()).map(drop).map_err(Into::into),
            Self::Peer(_) => Ok(()),
        }
    }

    fn detach(&mut self) {
        match self {
            Self::Ours { probe, .. } => probe.detach(),
            Self::Peer(peer) => peer.detach(),
        }
    }

    fn runs(&mut self) -> Result<Vec<Runs>> {
        match self {
            Self::Ours { probe, .. } => Ok(probe.runs()?),
            Self::Peer(peer) => Ok(peer.runs()?),
        }
    }
}

/// Run time of an arm's programs over [`COUNTED`] rounds, as counted by the kernel.
pub(super) fn counted(cpu: u32, arm: Arm) -> Result<Vec<Runs>> {
    let mut programs = arm.load(true)?.context("this arm attaches no program")?;
    for _ in 0..COUNTED {
        round(cpu, Some(&mut programs))?;
    }
    programs.runs()
}

/// One round; attached programs are polled as by the agent.
fn round(cpu: u32, mut programs: Option<&mut Programs>) -> Result<Round> {
    if let Some(programs) = &mut programs {
        programs.attach()?;
    }
    let round = thread::scope(|scope| {
        let round = scope.spawn(|| ping_pong::round(cpu, ROUND));
        while !round.is_finished() {
            if let Some(programs) = &mut programs {
                programs.poll()?;
            }
            thread::sleep(POLL);
        }
        round.join().map_err(|_panic| anyhow!("the round panicked"))?
    });
    if let Some(programs) = &mut programs {
        programs.detach();
    }
    round
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_of(switch_ns: u64) -> Round {
        Round {
            switches: 1_000,
            cpu: Duration::from_nanos(1_000 * switch_ns),
            elapsed: Duration::from_millis(1),
        }
    }

    #[test]
    fn deltas_are_taken_within_a_turn() {
        let turn = |detached, attached| {
            RoundByArm::from([
                (Arm::Detached, round_of(detached)),
                (Arm::Attached, round_of(attached)),
            ])
        };
        let turns = Turns(vec![
            turn(1_000, 1_050),
            turn(4_000, 4_030),
            turn(1_000, 990),
            turn(1_000, 1_090),
        ]);
        let Spread { p25, p50, p75 } = turns.delta(Arm::Attached, Arm::Detached);
        let is = |found: f64, right: f64| (found - right).abs() < 1e-6;
        assert!(
            is(p25, -10.0) && is(p50, 30.0) && is(p75, 50.0),
            "{p25} {p50} {p75}"
        );
        assert!(is(turns.median(Arm::Detached, Round::switch_ns), 1_000.0));
    }

    #[test]
    fn a_turn_has_each_arm_once_in_an_order_that_the_seed_decides() {
        let orders = |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            [(); 20].map(|()| Arm::order(&mut random))
        };
        for mut order in orders(SEED) {
            order.sort_unstable();
            assert_eq!(order, Arm::ALL);
        }
        assert_eq!(orders(SEED), orders(SEED));
        assert_ne!(orders(SEED), orders(SEED + 1));
    }

    #[test]
    fn every_arm_comes_early_and_late() {
        let mut random = StdRng::seed_from_u64(SEED);
        let orders: Vec<_> = (0..TURNS).map(|_| Arm::order(&mut random)).collect();
        for place in 0..Arm::ALL.len() {
            for arm in Arm::ALL {
                let times = orders.iter().filter(|order| order[place] == arm).count();
                // About TURNS / 9 each; with this seed none of the 81 counts is far from it.
                assert!((12..=55).contains(&times), "{arm:?} is at {place} {times} times");
            }
        }
    }
}
