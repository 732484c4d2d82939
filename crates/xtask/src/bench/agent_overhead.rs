//! `bench agent-overhead`: what the agent costs a machine, at every context switch and as a process.

pub mod ping_pong;
mod resident;

use std::{collections::BTreeMap, thread, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use headroom_agent::{
    probe::{Hook, Options, Probe, Runs},
    sample::{Sampler, clock::Clocks, procfs::Procfs, ring},
};
use serde::Serialize;

use self::ping_pong::Round;
use super::percentile;
use crate::{terminal::say, thread::last_cpu};

/// Turns of all arms.
const TURNS: usize = 250;
/// Rounds in which the kernel counts the time of the programs.
const COUNTED: usize = 100;
/// Length of a round: shorter than what disturbs a CPU for a while, such as load on its sibling, so that arms compared
/// are disturbed alike.
const ROUND: Duration = Duration::from_millis(20);
/// Interval of polls. The agent polls every 250 ms and has other tasks sampled after each poll; here the two threads
/// of one round are to meet as many choices as they would in seconds.
const POLL: Duration = Duration::from_millis(2);
/// Sampling that meets hardly any task: one in 2^16.
const RARELY: u32 = 16;
/// The agent reads `/proc/stat` at every fourth poll.
const STAT_EVERY: u32 = 4;
/// The rate of switches that the share of a CPU is given for.
const RATE: f64 = 100_000.0;

/// The figures. `switch_*`, `attached_*` and `detached_*` are CPU time of the two threads per switch.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was measured and how.
    pub workload: String,
    /// Turns behind `switch_*`, `attached_*` and `detached_*`.
    pub pairs: usize,
    /// Switches per second on the wall, programs attached.
    pub switches_per_s: f64,
    /// Without our programs.
    pub detached_ns_per_switch_p50: f64,
    /// With them, one task in eight sampled.
    pub attached_ns_per_switch_p50: f64,
    /// Attached less detached, turn by turn.
    pub switch_delta_ns_p25: f64,
    /// Attached less detached, turn by turn.
    pub switch_delta_ns_p50: f64,
    /// Attached less detached, turn by turn.
    pub switch_delta_ns_p75: f64,
    /// The same with hardly any task sampled.
    pub switch_delta_unsampled_ns_p50: f64,
    /// The same with every task sampled.
    pub switch_delta_all_sampled_ns_p50: f64,
    /// Detached less detached: what is noise.
    pub noise_delta_ns_p25: f64,
    /// Detached less detached.
    pub noise_delta_ns_p50: f64,
    /// Detached less detached.
    pub noise_delta_ns_p75: f64,
    /// Percent of one CPU at 100,000 switches per second, with the wake-ups that come with them: from
    /// `switch_delta_ns_p50`.
    pub cpu_pct_100k: f64,
    /// Time of a run of the program at `sched_switch` as the kernel counts it, its own counting included.
    pub prog_ns_sched_switch: f64,
    /// Of the one at `sched_wakeup`.
    pub prog_ns_sched_wakeup: f64,
    /// Runs behind `prog_ns_sched_switch`.
    pub prog_runs_sched_switch: u64,
    /// Memory of an agent process that measures.
    pub rss_mib: f64,
    /// The most it ever had.
    pub peak_rss_mib: f64,
    /// CPU time of that process in percent of one CPU: polls, estimates and its admin port.
    pub process_cpu_pct: f64,
}

/// What is attached during a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Arm {
    /// Nothing.
    Detached,
    /// Nothing, once more.
    DetachedAgain,
    /// The programs as the agent runs them.
    Attached,
    /// The programs with hardly any task sampled.
    Unsampled,
    /// The programs with every task sampled.
    AllSampled,
}

/// One round of each arm.
type Turn = BTreeMap<Arm, Round>;

/// Programs and their reader.
struct Programs {
    probe: Probe,
    sampler: Sampler,
}

impl Arm {
    const ALL: [Self; 5] = [
        Self::Attached,
        Self::Detached,
        Self::Unsampled,
        Self::DetachedAgain,
        Self::AllSampled,
    ];

    /// The arms in the order of one turn: each comes early and late, and after different others.
    fn order(turn: usize) -> Vec<Self> {
        let mut order = Self::ALL.to_vec();
        order.rotate_left(turn / 2 % Self::ALL.len());
        if turn % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// How rarely tasks are sampled, one in 2^n, if anything is attached.
    const fn sampling_shift(self) -> Option<u32> {
        match self {
            Self::Detached | Self::DetachedAgain => None,
            Self::Attached => Some(ring::SAMPLING_SHIFT),
            Self::Unsampled => Some(RARELY),
            Self::AllSampled => Some(0),
        }
    }
}

impl Programs {
    /// Loads them, for now detached.
    fn load(sampling_shift: u32, program_stats: bool) -> Result<Self> {
        let mut probe = Probe::load(&Options {
            program_stats,
            ..Options::default()
        })?;
        let maps = probe.take_maps().context("the maps were taken before")?;
        let source = ring::Source::new(maps, sampling_shift, probe.attached_ns())?;
        let sampler = Sampler::new(Box::new(source), Procfs::default(), STAT_EVERY, Clocks::read())?;
        probe.detach();
        Ok(Self { probe, sampler })
    }

    fn runs(&self, hook: Hook) -> Result<Runs> {
        let runs = self.probe.runs()?;
        let of_hook = runs.into_iter().find(|runs| runs.hook == hook);
        of_hook.with_context(|| format!("nothing is attached to {}", hook.tracepoint()))
    }
}

/// Measures. Needs root, and takes a minute.
///
/// # Errors
/// If the kernel programs cannot be had, the threads not be pinned, or the agent not be started.
pub fn run() -> Result<Report> {
    let program = resident::build()?;
    let cpu = last_cpu()?;
    let turns = turns(cpu)?;
    say("rounds in which the kernel counts the programs' time");
    let (switch, wakeup) = counted(cpu)?;
    say("an agent process");
    let resident = resident::watch(program)?;

    let delta = deltas(&turns, Arm::Attached, Arm::Detached);
    let noise = deltas(&turns, Arm::DetachedAgain, Arm::Detached);
    let unsampled = deltas(&turns, Arm::Unsampled, Arm::Detached);
    let all_sampled = deltas(&turns, Arm::AllSampled, Arm::Detached);
    let median = |arm: Arm, figure: fn(&Round) -> f64| {
        let figures = turns.iter().filter_map(|turn| turn.get(&arm).map(figure));
        percentile(&sorted(figures), 50)
    };
    let switch_delta_ns_p50 = percentile(&delta, 50);
    Ok(Report {
        workload: format!(
            "two threads on cpu {cpu} pass a byte through pipes, one wake-up per switch; rounds of {} ms, their order \
             changes; 1 task in {} sampled; program time over {COUNTED} other rounds and all CPUs",
            ROUND.as_millis(),
            1 << ring::SAMPLING_SHIFT
        ),
        pairs: turns.len(),
        switches_per_s: median(Arm::Attached, Round::per_second),
        detached_ns_per_switch_p50: median(Arm::Detached, Round::switch_ns),
        attached_ns_per_switch_p50: median(Arm::Attached, Round::switch_ns),
        switch_delta_ns_p25: percentile(&delta, 25),
        switch_delta_ns_p50,
        switch_delta_ns_p75: percentile(&delta, 75),
        switch_delta_unsampled_ns_p50: percentile(&unsampled, 50),
        switch_delta_all_sampled_ns_p50: percentile(&all_sampled, 50),
        noise_delta_ns_p25: percentile(&noise, 25),
        noise_delta_ns_p50: percentile(&noise, 50),
        noise_delta_ns_p75: percentile(&noise, 75),
        cpu_pct_100k: switch_delta_ns_p50 * RATE / 1e9 * 100.0,
        prog_ns_sched_switch: per_run_ns(&switch),
        prog_ns_sched_wakeup: per_run_ns(&wakeup),
        prog_runs_sched_switch: switch.count,
        rss_mib: resident.rss_mib,
        peak_rss_mib: resident.peak_rss_mib,
        process_cpu_pct: resident.cpu_pct,
    })
}

fn turns(cpu: u32) -> Result<Vec<Turn>> {
    let mut programs = BTreeMap::new();
    for arm in Arm::ALL {
        if let Some(shift) = arm.sampling_shift() {
            programs.insert(arm, Programs::load(shift, false)?);
        }
    }
    say(format!("{TURNS} turns of {} rounds on cpu {cpu}", Arm::ALL.len()));
    let mut turn = |number| -> Result<Turn> {
        let rounds = Arm::order(number).into_iter();
        rounds
            .map(|arm| Ok((arm, round(cpu, programs.get_mut(&arm))?)))
            .collect()
    };
    // The first fills caches.
    turn(0)?;
    (0..TURNS).map(turn).collect()
}

/// A round with programs attached and read as the agent reads them, or with none.
fn round(cpu: u32, mut programs: Option<&mut Programs>) -> Result<Round> {
    if let Some(Programs { probe, .. }) = &mut programs {
        probe.attach()?;
    }
    let round = thread::scope(|scope| {
        let round = scope.spawn(|| ping_pong::round(cpu, ROUND));
        while !round.is_finished() {
            if let Some(Programs { sampler, .. }) = &mut programs {
                sampler.poll(Clocks::read())?;
            }
            thread::sleep(POLL);
        }
        round.join().map_err(|_panic| anyhow!("the round panicked"))?
    });
    if let Some(Programs { probe, .. }) = &mut programs {
        probe.detach();
    }
    round
}

/// What the kernel counts of the programs at `sched_switch` and `sched_wakeup` during some rounds.
fn counted(cpu: u32) -> Result<(Runs, Runs)> {
    let mut programs = Programs::load(ring::SAMPLING_SHIFT, true)?;
    for _ in 0..COUNTED {
        round(cpu, Some(&mut programs))?;
    }
    Ok((
        programs.runs(Hook::SchedSwitch)?,
        programs.runs(Hook::SchedWakeup)?,
    ))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 runs")]
fn per_run_ns(runs: &Runs) -> f64 {
    runs.time.as_secs_f64() * 1e9 / runs.count.max(1) as f64
}

/// What a switch costs in one arm beyond another, turn by turn, in nanoseconds, ascending.
fn deltas(turns: &[Turn], with: Arm, without: Arm) -> Vec<f64> {
    sorted(turns.iter().filter_map(|turn| {
        let (with, without) = (turn.get(&with)?, turn.get(&without)?);
        Some(with.switch_ns() - without.switch_ns())
    }))
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(switch_ns: u64) -> Round {
        Round {
            switches: 1_000,
            cpu: Duration::from_nanos(1_000 * switch_ns),
            elapsed: Duration::from_millis(1),
        }
    }

    #[test]
    fn deltas_are_taken_within_a_turn() {
        let turn = |detached, attached| {
            Turn::from([(Arm::Detached, took(detached)), (Arm::Attached, took(attached))])
        };
        let turns = [turn(1_000, 1_050), turn(4_000, 4_030), turn(1_000, 990)];
        let deltas = deltas(&turns, Arm::Attached, Arm::Detached);
        let expected = [-10.0, 30.0, 50.0];
        assert!(
            deltas.len() == 3
                && deltas
                    .iter()
                    .zip(expected)
                    .all(|(found, right)| (found - right).abs() < 1e-6),
            "{deltas:?}"
        );
    }

    #[test]
    fn every_arm_has_each_place_in_a_turn() {
        for place in 0..Arm::ALL.len() {
            let mut there: Vec<Arm> = (0..2 * Arm::ALL.len())
                .map(|turn| Arm::order(turn)[place])
                .collect();
            there.sort_unstable();
            there.dedup();
            assert_eq!(there.len(), Arm::ALL.len());
        }
    }
}
