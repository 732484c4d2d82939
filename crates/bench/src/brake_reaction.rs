//! `bench brake-reaction`: the time from the start of a load until the node's free capacity in etcd is halved. The
//! loads are saturated CPUs and an OOM kill at the limit of all pods; all durations are those of production.
//!
//! Each run has its own node with this machine's CPUs and memory, a pod that requests all of it, and an agent whose
//! checkpoint contains a quiet day: see `quiet_day`. Free capacity is allocatable less the requests of bound pods.
//! Sixteen spinning tasks per CPU saturate the CPUs, in the cgroup of that pod, with the weight that the kubelet sets;
//! the agent runs in the cgroup of a pod with a small request. Webhook, API server and etcd run outside kubepods on the
//! same CPUs; in other clusters they have their own machines. The clock starts before the load does, so no later than
//! the first contended window, and stops when a watch delivers the revision. A run is repeated if other processes
//! contend for the CPUs before it, because it would measure their load.

pub mod cut_off;
pub mod quiet_day;
mod readiness;
mod run;
mod series;

use std::time::Duration;

use anyhow::Result;
use clap::Args as _;
use headroom_domain::estimate::Profile;
use headroom_testbed::programs::Programs;
use serde::Serialize;

use self::{
    run::BrakeTestbed,
    series::{RunCount, Series, SeriesPlan},
};
use super::{
    criterion::Criterion,
    declaration::{Report, Row, run_async},
};

/// Limit of the p99 time from the first contended window until free capacity is halved.
pub const SATURATION_S: f64 = 12.5;
/// Limit of the longest time from an OOM kill until free capacity is halved.
pub const OOM_S: f64 = 2.0;
/// Number of spinning tasks per CPU.
const SPINNERS: usize = 16;

pub static ROW: Row = Row {
    name: "brake-reaction",
    about: "Measures the time until a brake halves free capacity in etcd, after CPU saturation and after an OOM kill, with production durations. Needs root.",
    flags: RunCount::augment_args,
    run: |flags| {
        run_async(flags, async |count: RunCount| {
            count.run(&workload(), measure).await
        })
    },
};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BrakeReactionReport {
    /// Description of load and set-up.
    pub workload: String,
    /// Runs behind each figure; below 100, a p99 is the longest.
    pub runs: usize,
    /// Additional runs that do not count: other processes contended for the CPUs before the load started.
    pub disturbed_runs: usize,
    /// Time from the load's start until free CPU is halved in etcd.
    pub saturation_s_p50: f64,
    pub saturation_s_p99: f64,
    pub saturation_s_max: f64,
    /// The part of that time after the agent's report.
    pub saturation_publish_s_max: f64,
    /// Time from the start of the process that is OOM-killed until free memory is halved in etcd.
    pub oom_s_p50: f64,
    pub oom_s_p99: f64,
    pub oom_s_max: f64,
    /// The part of that time after the agent's report.
    pub oom_publish_s_max: f64,
    /// CPU time that the hypervisor gave to other machines meanwhile, in percent of all CPUs.
    pub stolen_pct: f64,
    pub each: Vec<Run>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Run {
    /// Start of the load within a brake period of the agent.
    pub phase_s: f64,
    /// Time from the load's start until free CPU was halved.
    pub saturation_s: f64,
    /// Time from the agent's report until free CPU was halved.
    pub saturation_publish_s: f64,
    /// Time from the start of the process that was OOM-killed until free memory was halved.
    pub oom_s: f64,
    /// Time from the agent's report until free memory was halved.
    pub oom_publish_s: f64,
}

impl Report for BrakeReactionReport {
    fn criteria(&self) -> Vec<Criterion> {
        vec![
            Criterion::at_most("saturation_s_p99", self.saturation_s_p99, SATURATION_S),
            Criterion::at_most("oom_s_max", self.oom_s_max, OOM_S),
        ]
    }
}

impl BrakeReactionReport {
    fn new(series: Series<Run>) -> Self {
        let saturation = series.figure(|run| run.saturation_s);
        let oom = series.figure(|run| run.oom_s);
        Self {
            workload: workload(),
            runs: series.each.len(),
            disturbed_runs: series.disturbed,
            saturation_s_p50: saturation.p50,
            saturation_s_p99: saturation.p99,
            saturation_s_max: saturation.max,
            saturation_publish_s_max: series.figure(|run| run.saturation_publish_s).max,
            oom_s_p50: oom.p50,
            oom_s_p99: oom.p99,
            oom_s_max: oom.max,
            oom_publish_s_max: series.figure(|run| run.oom_publish_s).max,
            stolen_pct: series.stolen_pct,
            each: series.each,
        }
    }
}

/// Measures with these programs. Needs root: the agent runs in a time namespace, the loads in cgroups.
///
/// # Errors
/// If a part cannot be started or misses its time limit.
pub async fn measure(programs: Programs, runs: u16) -> Result<BrakeReactionReport> {
    let mut testbed = BrakeTestbed::start(programs, &["webhook"]).await?;
    let plan = SeriesPlan {
        runs,
        prefix: "braked",
        disturbance: "other processes contended for the CPUs before the load started",
        line: |run: &Run| {
            format!(
                "free CPU halved after {:.2} s, free memory after {:.2} s",
                run.saturation_s, run.oom_s
            )
        },
    };
    let series = plan
        .measure(async |name, phase| testbed.run(name, phase).await)
        .await?;
    Ok(BrakeReactionReport::new(series))
}

/// Period at whose end the agent decides about brakes.
fn period() -> Duration {
    Profile::Production.timing().brake_period
}

fn workload() -> String {
    format!(
        "Real etcd, API server, webhook, floor policies and agent with production timing on this machine. Each run has a new \
         node whose agent starts from a quiet day, at ratios of {:.2} for CPU and {:.2} for memory, with a pod that requests all \
         of raw. {SPINNERS} spinning tasks per CPU start, then a process that allocates twice the memory limit of all pods.",
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
    fn below_100_runs_the_p99_is_the_longest() {
        let report = BrakeReactionReport::new(Series {
            each: vec![run(9.0, 0.5), run(12.75, 0.25), run(3.0, 0.125)],
            disturbed: 0,
            stolen_pct: 1.0,
        });
        assert_eq!(
            (report.saturation_s_p50, report.saturation_s_p99, report.oom_s_max),
            (9.0, 12.75, 0.5)
        );
        let criteria = report.criteria();
        let is_met = criteria.iter().map(Criterion::is_met);
        assert_eq!(is_met.collect::<Vec<_>>(), [false, true]);
    }
}
