//! `bench node-harm`: checks whether amplification harms a node. The modes `off`, `static` and `auto` are compared in
//! turns, on one machine under the same load.
//!
//! The node is this machine with real kubelet code; its pods are processes in their own cgroups. Each turn offers the
//! same pods, more than fit raw: the mode decides how many of them run, and with that the consequences. Webhook and
//! agent run in all turns, including `off`, so that a difference is due to the mode; `bench agent-overhead` measures
//! the cost of the agent itself. Turns of the other modes alternate with turns of `off`, so that other work of this
//! machine disturbs both.

mod column;
mod nodes;
mod pods;
pub mod probe;
mod testbed;

use std::{collections::BTreeMap, fmt, time::Duration};

use anyhow::Result;
use clap::Args;
use headroom_domain::policy::Mode;
use serde::Serialize;
use xtask::terminal::{print, span};

use self::{column::Column, testbed::HarmTestbed};
use super::{
    criterion::Criterion,
    declaration::{Report, Row, run_async},
    statistics::{as_float, percentile},
};

const COMPARED: [Mode; 2] = [Mode::Static, Mode::Auto];
/// Measured part of a turn.
const MEASURED: Duration = Duration::from_secs(7);
/// Estimated durations of the start, and of a turn with its preparation.
const STARTING: Duration = Duration::from_secs(40);
const TURN: Duration = Duration::from_secs(20);

pub static ROW: Row = Row {
    name: "node-harm",
    about: "Compares a node in modes off, static and auto under the same load: latency, OOM kills, leases, rejected pods. Needs root.",
    flags: NodeHarm::augment_args,
    run: |flags| run_async(flags, async |bench: NodeHarm| bench.run().await),
};

/// Flags of `cargo xtask bench node-harm`.
#[derive(Debug, Clone, Args)]
pub struct NodeHarm {
    /// Number of rounds; each has one turn of `static`, one of `auto` and two of `off`.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=50))]
    rounds: u16,
    /// Ratio of mode `static`, in cents. The default adds about as much as `auto`.
    #[arg(long, value_name = "CENTS", default_value_t = 130, value_parser = clap::value_parser!(u64).range(100..=500))]
    guess: u64,
    /// Average CPU use of pods in percent of their requests; pods use it in bursts of the whole request.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=100))]
    used: u8,
}

/// The figures of all modes.
#[derive(Debug, Clone, Serialize)]
pub struct NodeHarmReport {
    /// Description of load and set-up.
    pub workload: String,
    /// Figures by name of the mode.
    #[serde(flatten)]
    pub modes: BTreeMap<&'static str, Figures>,
    #[serde(skip)]
    turns: BTreeMap<&'static str, Vec<ModeRun>>,
}

/// The figures of one mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    pub turns: usize,
    pub turns_s: f64,
    /// Figures that must not be worse than in `off`: the median of turns for latency, the mean of turns for all
    /// others.
    #[serde(flatten)]
    pub columns: BTreeMap<&'static str, f64>,
    /// Difference between the highest and the lowest `latency_us_p99` of a turn.
    pub latency_us_p99_spread: f64,
    /// Tasks of the probe in all turns.
    pub latency_samples: usize,
    pub lease_samples: usize,
    /// The node's allocatable CPU at the ends of turns, in percent of raw. This and all figures below are means of
    /// turns.
    pub allocatable_pct_of_raw: f64,
    /// Pods bound to the node at that time.
    pub placed_pods: f64,
    pub requested_pct_of_raw: f64,
    /// CPU use of these pods while the probe ran.
    pub used_pct_of_raw: f64,
    /// CPU use of the whole machine meanwhile, including other processes.
    pub machine_pct_of_raw: f64,
}

#[derive(Debug, Clone, Default)]
struct ModeRun {
    seconds: f64,
    /// Delays of the probe's tasks, in microseconds, ascending.
    late: Vec<f64>,
    oom_kills: usize,
    not_ready: usize,
    /// Lease renewals of the bystander nodes.
    renewals: usize,
    rejected: usize,
    placed: usize,
    allocatable_pct: f64,
    requested_pct: f64,
    used_pct: f64,
    machine_pct: f64,
}

impl NodeHarm {
    /// Prints workload and expected duration; returns the workload.
    fn announce(&self) -> String {
        let workload = format!(
            "The node is this machine with real kubelet code, floor policies, and an agent on this kernel with compressed \
             durations. Each pod requests {} % of the node and uses {} % of its request, in bursts of the whole request; each \
             turn offers more pods than fit. The modes alternate: off, static at {}.{:02}, off, auto. In each turn the kubelet \
             restarts, then a task is due every 5 ms for {} s in its own pod.",
            pods::REQUEST_PCT,
            self.used,
            self.guess / 100,
            self.guess % 100,
            MEASURED.as_secs(),
        );
        let turns = u32::from(self.rounds) * 4;
        print(format!(
            "{workload} {turns} turns, about {} in all.",
            span(STARTING + TURN * turns)
        ));
        workload
    }

    /// Measures; needs root.
    ///
    /// # Errors
    /// If a part cannot be started or misses its time limit.
    pub async fn run(&self) -> Result<NodeHarmReport> {
        let workload = self.announce();
        let mut testbed = HarmTestbed::start(self.used, self.guess).await?;
        let mut turns: BTreeMap<&'static str, Vec<ModeRun>> = BTreeMap::new();
        for round in 0..self.rounds {
            for mode in order(round) {
                let turn = testbed.turn(mode, MEASURED).await?;
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

impl Report for NodeHarmReport {
    /// No mode is worse than `off` in any column.
    fn criteria(&self) -> Vec<Criterion> {
        let of = |mode: Mode| self.turns.get(mode.name()).map_or(&[][..], Vec::as_slice);
        let off = of(Mode::Off);
        let criteria = COMPARED
            .into_iter()
            .flat_map(|mode| Column::ALL.map(|column| column.criterion(mode.name(), of(mode), off)));
        criteria.collect()
    }
}

impl Figures {
    fn summarize(turns: &[ModeRun]) -> Self {
        let mean = |of: fn(&ModeRun) -> f64| turns.iter().map(of).sum::<f64>() / as_float(turns.len());
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
            placed_pods: mean(|turn| as_float(turn.placed)),
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
            "latency p99 {:.0} us over {} tasks, {} lease renewals in {:.0} s, {} pods request {:.0} % of raw and use {:.0} %, \
             the machine uses {:.0} %",
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

/// Order of the modes in one round: turns of `off` alternate with the others, whose places change from round to
/// round.
fn order(round: u16) -> [Mode; 4] {
    let [first, second] = COMPARED;
    if round.is_multiple_of(2) {
        [Mode::Off, first, Mode::Off, second]
    } else {
        [Mode::Off, second, Mode::Off, first]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_off_alternate_with_the_other_modes_in_changing_order() {
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
