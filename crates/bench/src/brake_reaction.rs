//! `bench brake-reaction`: the time from the start of a load until the node's free capacity in etcd is halved. The
//! loads are saturated CPUs and an OOM kill at the limit of all pods; all durations are those of production.
//!
//! Each run has a node of its own, with this machine's CPUs and memory, a pod that requests all of it, and an agent
//! that remembers a quiet day: see `quiet_day`. Free capacity is allocatable less the requests of bound pods. Sixteen
//! spinning tasks for each CPU saturate the CPUs, in the cgroup of that pod, with the weight that the kubelet gives it;
//! the agent runs in the cgroup of a pod with a small request of its own. Webhook, API server and etcd run beside
//! kubepods on the same CPUs; in other clusters they have machines of their own. The clock starts before the load does,
//! which is not later than the first contended window, and stops when a watch delivers the revision. A run is repeated
//! if other processes contend for the CPUs before it, because it would measure their load.

pub mod cut_off;
pub mod quiet_day;
mod readiness;
mod run;
mod series;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, FromArgMatches as _};
use headroom_domain::estimate::Profile;
use headroom_testbed::programs::Programs;
use serde::Serialize;
use tokio::{runtime::Runtime, task::spawn_blocking};
use xtask::terminal::{print, span};

use self::{
    run::BrakeTestbed,
    series::{Series, SeriesPlan},
};
use super::{
    criterion::Criterion,
    declaration::{BenchResult, Row},
    percentile,
};

/// From the first contended window until free capacity is halved: at most so long in all but one of a hundred.
pub const SATURATION_S: f64 = 12.5;
/// From an OOM kill until then: at most so long ever.
pub const OOM_S: f64 = 2.0;
/// Spinning tasks for each CPU.
const SPINNERS: usize = 16;
/// About how long it takes to start everything, and a run.
const STARTING: Duration = Duration::from_secs(15);
const RUN: Duration = Duration::from_secs(22);

/// The bench.
pub static ROW: Row = Row {
    name: "brake-reaction",
    about: "How soon a brake halves free capacity in etcd, with durations as in production: saturation, OOM kill. Needs root.",
    flags: BrakeReaction::augment_args,
    run: |flags| {
        let report = Runtime::new()?.block_on(BrakeReaction::from_arg_matches(flags)?.run())?;
        BenchResult::new(&report, report.criteria())
    },
};

/// `cargo xtask bench brake-reaction`.
#[derive(Debug, Clone, Args)]
pub struct BrakeReaction {
    /// Runs, each with a saturation and an OOM kill; the load comes at another time of the brake's period in each.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
}

/// The figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BrakeReactionReport {
    /// What was measured and how.
    pub workload: String,
    /// Runs behind each figure; below 100 a p99 is the longest.
    pub runs: usize,
    /// Runs besides, in which others contended for the CPUs before the load came: they say nothing.
    pub disturbed_runs: usize,
    /// From the load's start until free CPU is halved in etcd.
    pub saturation_s_p50: f64,
    /// The same.
    pub saturation_s_p99: f64,
    /// The same.
    pub saturation_s_max: f64,
    /// Of that, from the agent's report on.
    pub saturation_publish_s_max: f64,
    /// From the start of the process that is killed until free memory is halved in etcd.
    pub oom_s_p50: f64,
    /// The same.
    pub oom_s_p99: f64,
    /// The same.
    pub oom_s_max: f64,
    /// Of that, from the agent's report on.
    pub oom_publish_s_max: f64,
    /// Time that the hypervisor gave to somebody else meanwhile, of all CPUs.
    pub stolen_pct: f64,
    /// Each run.
    pub each: Vec<Run>,
}

/// What one run showed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Run {
    /// When the load came: so long after the agent began to count its periods, less whole periods.
    pub phase_s: f64,
    /// From the load's start until free CPU was halved.
    pub saturation_s: f64,
    /// From the agent's report until then.
    pub saturation_publish_s: f64,
    /// From the start of the process that was killed until free memory was halved.
    pub oom_s: f64,
    /// From the agent's report until then.
    pub oom_publish_s: f64,
}

impl BrakeReactionReport {
    /// What must hold.
    pub fn criteria(&self) -> Vec<Criterion> {
        vec![
            Criterion::at_most("saturation_s_p99", self.saturation_s_p99, SATURATION_S),
            Criterion::at_most("oom_s_max", self.oom_s_max, OOM_S),
        ]
    }

    fn new(series: Series<Run>) -> Self {
        let saturation = series.sorted(|run| run.saturation_s);
        let oom = series.sorted(|run| run.oom_s);
        Self {
            workload: workload(),
            runs: series.each.len(),
            disturbed_runs: series.disturbed,
            saturation_s_p50: percentile(&saturation, 50),
            saturation_s_p99: percentile(&saturation, 99),
            saturation_s_max: percentile(&saturation, 100),
            saturation_publish_s_max: percentile(&series.sorted(|run| run.saturation_publish_s), 100),
            oom_s_p50: percentile(&oom, 50),
            oom_s_p99: percentile(&oom, 99),
            oom_s_max: percentile(&oom, 100),
            oom_publish_s_max: percentile(&series.sorted(|run| run.oom_publish_s), 100),
            stolen_pct: series.stolen_pct,
            each: series.each,
        }
    }
}

impl BrakeReaction {
    /// Measures; says beforehand what and how long.
    ///
    /// # Errors
    /// If a part cannot be had or does not do what it must in time.
    pub(super) async fn run(&self) -> Result<BrakeReactionReport> {
        let total = STARTING + RUN * u32::from(self.runs);
        print(format!("{} About {} in all.", workload(), span(total)));
        let programs = spawn_blocking(Programs::build).await??;
        measure(programs, self.runs).await
    }
}

/// Measures so many runs with these programs. Only root can: the agent lives in a time namespace, the loads in cgroups.
///
/// # Errors
/// If a part cannot be had or does not do what it must in time.
pub async fn measure(programs: Programs, runs: u16) -> Result<BrakeReactionReport> {
    let mut scene = BrakeTestbed::start(programs, &["webhook"]).await?;
    let plan = SeriesPlan {
        runs,
        prefix: "braked",
        disturbance: "others contended for the CPUs before the load came",
        line: |run: &Run| {
            format!(
                "free CPU halved after {:.2} s, free memory after {:.2} s",
                run.saturation_s, run.oom_s
            )
        },
    };
    let series = plan
        .measure(async |name, phase| scene.run(name, phase).await)
        .await?;
    Ok(BrakeReactionReport::new(series))
}

/// How long a period of the brakes is.
fn period() -> Duration {
    Profile::Production.timing().brake_period
}

fn workload() -> String {
    format!(
        "real etcd, API server, webhook, floor policies and agent with production timing on this machine; a new node in each \
         run, which remembers a quiet day, with cpu {:.2} and memory {:.2} and a pod that requests all of raw; {SPINNERS} \
         spinning tasks for each CPU, then a process that takes twice the limit of all pods.",
        cents(quiet_day::RATIO.cpu),
        cents(quiet_day::RATIO.memory),
    )
}

#[expect(clippy::cast_precision_loss, reason = "hundreds")]
fn cents(cents: u64) -> f64 {
    cents as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(saturation_s: f64, oom_s: f64) -> Run {
        Run {
            phase_s: 5.0,
            saturation_s,
            saturation_publish_s: 0.25,
            oom_s,
            oom_publish_s: 0.125,
        }
    }

    #[test]
    fn the_longest_of_few_runs_decides() {
        let report = BrakeReactionReport::new(Series {
            each: vec![run(9.0, 0.5), run(12.75, 0.25), run(3.0, 0.125)],
            disturbed: 0,
            stolen_pct: 1.0,
        });
        assert_eq!(
            (report.saturation_s_p50, report.saturation_s_p99, report.oom_s_max),
            (9.0, 12.75, 0.5)
        );
        let verdicts = report.criteria();
        let verdicts = verdicts
            .iter()
            .map(|criterion| criterion.range.contains(&criterion.measured));
        assert_eq!(verdicts.collect::<Vec<_>>(), [false, true]);
    }
}
