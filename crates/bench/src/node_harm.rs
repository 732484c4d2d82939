//! `bench node-harm`: checks if amplification harms a node. The modes `off`, `static` and `auto` are compared in turns,
//! on one machine under the same load.
//!
//! The node is this machine and its kubelet is real code; its pods are processes in cgroups of their own. The same pods
//! are offered in each turn, more than fit raw: the mode decides how many of them run, and with that the consequences.
//! The webhook and the agent run in all turns, `off` included, so that a difference is the mode's; `bench
//! agent-overhead` measures the cost of the agent itself. Turns of the other modes lie between turns of `off`, so that
//! other work of this machine disturbs both.

mod column;
mod nodes;
mod pods;
pub mod probe;
mod testbed;

use std::{collections::BTreeMap, fmt, time::Duration};

use anyhow::Result;
use clap::{Args, FromArgMatches as _};
use headroom_domain::policy::Mode;
use serde::Serialize;
use tokio::runtime::Runtime;
use xtask::terminal::{print, span};

use self::{column::Column, testbed::HarmTestbed};
use super::{
    criterion::Criterion,
    declaration::{BenchResult, Row},
    percentile,
};

/// What is beside `off`.
const BESIDE: [Mode; 2] = [Mode::Static, Mode::Auto];
/// How long a turn is measured.
const MEASURED: Duration = Duration::from_secs(7);
/// About how long it takes to start everything, and a turn with its preparation.
const STARTING: Duration = Duration::from_secs(40);
const TURN: Duration = Duration::from_secs(20);

/// The bench.
pub static ROW: Row = Row {
    name: "node-harm",
    about: "A node in modes off, static and auto under the same load: latency, kills, leases, pods turned away. Needs root.",
    flags: NodeHarm::augment_args,
    run: |flags| {
        let report = Runtime::new()?.block_on(NodeHarm::from_arg_matches(flags)?.run())?;
        BenchResult::new(&report, report.criteria())
    },
};

/// `cargo xtask bench node-harm`.
#[derive(Debug, Clone, Args)]
pub struct NodeHarm {
    /// Rounds: in each, `static` and `auto` have one turn and `off` has two.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=50))]
    rounds: u16,
    /// The ratio of `static`, in cents: somebody's guess. With the default they give about as much as `auto` does.
    #[arg(long, value_name = "CENTS", default_value_t = 130, value_parser = clap::value_parser!(u64).range(100..=500))]
    guess: u64,
    /// CPU that pods really use in the mean, in percent of what they request; they use it in bursts of all they request.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=100))]
    used: u8,
}

/// What was done, and what came of it in each mode.
#[derive(Debug, Clone, Serialize)]
pub struct NodeHarmReport {
    /// What was measured and how.
    pub workload: String,
    /// The figures of each mode, by its name.
    #[serde(flatten)]
    pub modes: BTreeMap<&'static str, Figures>,
    #[serde(skip)]
    turns: BTreeMap<&'static str, Vec<ModeRun>>,
}

/// The figures of one mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Turns behind all of this.
    pub turns: usize,
    /// Length of all turns.
    pub turns_s: f64,
    /// What must not be worse than in `off`: latencies of the probe in the median of turns, all else in their mean.
    #[serde(flatten)]
    pub columns: BTreeMap<&'static str, f64>,
    /// How far the turns differ in `latency_us_p99`.
    pub latency_us_p99_spread: f64,
    /// Tasks of the probe in all turns.
    pub latency_samples: usize,
    /// Renewals behind `lease_renewals_per_s`.
    pub lease_samples: usize,
    /// The node's allocatable CPU at the ends of turns, in percent of what its kubelet has; this and all below in the
    /// mean of turns.
    pub allocatable_pct_of_raw: f64,
    /// Pods with a place on the node then.
    pub placed_pods: f64,
    /// CPU that they request.
    pub requested_pct_of_raw: f64,
    /// CPU that they really used while the probe ran.
    pub used_pct_of_raw: f64,
    /// CPU that the whole machine used meanwhile, strangers to the bench included.
    pub machine_pct_of_raw: f64,
}

/// One turn.
#[derive(Debug, Clone, Default)]
struct ModeRun {
    /// Its length.
    seconds: f64,
    /// How late tasks of the probe were done, in microseconds, ascending.
    late: Vec<f64>,
    oom_kills: usize,
    not_ready: usize,
    /// Leases that the nodes beside renewed.
    renewals: usize,
    rejected: usize,
    placed: usize,
    allocatable_pct: f64,
    requested_pct: f64,
    used_pct: f64,
    machine_pct: f64,
}

impl NodeHarm {
    /// Says what is going to be done, and how long that takes.
    fn announce(&self) -> String {
        let workload = format!(
            "a node that is this machine, with real kubelet code, floor policies, and an agent on this kernel with \
             compressed durations; pods that request {} % of it each and use {} % of that, in bursts of all of it, more \
             in each turn than fit; turns of off, static at {}.{:02}, off, auto, and so on; in each the kubelet is \
             restarted, then a task is due every 5 ms for {} s in a pod of its own",
            pods::REQUEST_PCT,
            self.used,
            self.guess / 100,
            self.guess % 100,
            MEASURED.as_secs(),
        );
        let turns = u32::from(self.rounds) * 4;
        print(format!(
            "{workload}. {turns} turns, about {} in all.",
            span(STARTING + TURN * turns)
        ));
        workload
    }

    /// Measures; says beforehand what and how long. Needs root.
    ///
    /// # Errors
    /// If a part cannot be had, or does not do what it must in time.
    pub async fn run(&self) -> Result<NodeHarmReport> {
        let workload = self.announce();
        let mut scene = HarmTestbed::start(self.used, self.guess).await?;
        let mut turns: BTreeMap<&'static str, Vec<ModeRun>> = BTreeMap::new();
        for round in 0..self.rounds {
            for mode in order(round) {
                let turn = scene.turn(mode, MEASURED).await?;
                print(format!("round {}, {mode}: {turn}", round + 1));
                turns.entry(mode.name()).or_default().push(turn);
            }
        }
        Ok(NodeHarmReport {
            workload,
            modes: turns
                .iter()
                .map(|(mode, turns)| (*mode, Figures::summarize(turns)))
                .collect(),
            turns,
        })
    }
}

impl NodeHarmReport {
    /// What must hold: no mode is worse than `off` in any column.
    pub fn criteria(&self) -> Vec<Criterion> {
        let of = |mode: Mode| self.turns.get(mode.name()).map_or(&[][..], Vec::as_slice);
        let off = of(Mode::Off);
        let criteria = BESIDE
            .into_iter()
            .flat_map(|mode| Column::ALL.map(|column| column.criterion(mode.name(), of(mode), off)));
        criteria.collect()
    }
}

impl Figures {
    fn summarize(turns: &[ModeRun]) -> Self {
        let mean = |of: fn(&ModeRun) -> f64| turns.iter().map(of).sum::<f64>() / count(turns.len());
        Self {
            turns: turns.len(),
            turns_s: turns.iter().map(|turn| turn.seconds).sum(),
            columns: Column::ALL
                .iter()
                .map(|column| (column.key, column.figure(turns)))
                .collect(),
            latency_us_p99_spread: Column::LATENCY.spread(turns),
            latency_samples: turns.iter().map(|turn| turn.late.len()).sum(),
            lease_samples: turns.iter().map(|turn| turn.renewals).sum(),
            allocatable_pct_of_raw: mean(|turn| turn.allocatable_pct),
            placed_pods: mean(|turn| count(turn.placed)),
            requested_pct_of_raw: mean(|turn| turn.requested_pct),
            used_pct_of_raw: mean(|turn| turn.used_pct),
            machine_pct_of_raw: mean(|turn| turn.machine_pct),
        }
    }
}

impl fmt::Display for ModeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "latency p99 {:.0} us of {} tasks, {} leases renewed in {:.0} s, {} pods request {:.0} % of raw and use {:.0} %, \
             the machine {:.0} %",
            percentile(&self.late, 99),
            self.late.len(),
            self.renewals,
            self.seconds,
            self.placed,
            self.requested_pct,
            self.used_pct,
            self.machine_pct,
        )
    }
}

/// The modes in the order of one round: each other one between turns of `off`, and before and after the others.
fn order(round: u16) -> [Mode; 4] {
    let [first, second] = BESIDE;
    if round.is_multiple_of(2) {
        [Mode::Off, first, Mode::Off, second]
    } else {
        [Mode::Off, second, Mode::Off, first]
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(events: usize) -> f64 {
    events as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_modes_have_their_turns_between_those_of_off_and_change_places() {
        let rounds: Vec<[Mode; 4]> = (0..2).map(order).collect();
        for round in &rounds {
            assert_eq!((round[0], round[2]), (Mode::Off, Mode::Off));
        }
        assert_eq!((rounds[0][1], rounds[0][3]), (Mode::Static, Mode::Auto));
        assert_eq!((rounds[1][1], rounds[1][3]), (Mode::Auto, Mode::Static));
    }

    #[test]
    fn a_report_has_an_object_of_figures_for_each_mode() {
        let turn = |rejected| ModeRun {
            seconds: 10.0,
            late: vec![90.0, 100.0],
            renewals: 5,
            rejected,
            placed: 10,
            ..ModeRun::default()
        };
        let turns: BTreeMap<&'static str, Vec<ModeRun>> = BTreeMap::from([
            ("off", vec![turn(0), turn(0)]),
            ("static", vec![turn(1)]),
            ("auto", vec![turn(0)]),
        ]);
        let modes = turns
            .iter()
            .map(|(mode, turns)| (*mode, Figures::summarize(turns)));
        let report = NodeHarmReport {
            workload: "pods".to_owned(),
            modes: modes.collect(),
            turns,
        };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["off"]["latency_samples"], 4);
        assert_eq!(json["off"]["latency_us_p99"], 100.0);
        assert_eq!(json["static"]["lease_renewals_per_s"], 0.5);
        let failed: Vec<String> = report
            .criteria()
            .iter()
            .map(ToString::to_string)
            .filter(|line| line.starts_with("FAIL"))
            .collect();
        assert_eq!(
            failed,
            ["FAIL static.rejected_pods_per_turn: 1.000, must be at most 0.000"]
        );
    }
}
