//! `bench primary-cut-off`: the time from the start of a saturation until free CPU in etcd is halved, when the replica
//! that writes for the node is stopped on the way.
//!
//! As in `brake-reaction`, with two replicas. The agent makes one of them its primary, the one that writes for the node.
//! When the load is half-way to the end of the period that will count as contended, that replica gets SIGSTOP: its kernel
//! goes on acknowledging what it never reads, as on a node that hangs. The API server calls the other one throughout, as it
//! does once the stopped one is no longer ready. The clock runs from before the load's start until a watch delivers the
//! revision.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, FromArgMatches as _};
use headroom_agent::local::status::{Status, StreamState};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::programs::{Programs, get};
use hyper::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::Signal;
use serde::Serialize;
use tokio::{runtime::Runtime, task::spawn_blocking, time::sleep};
use xtask::terminal::{print, span};

use super::{
    RUN, SATURATION_S, STARTING, period,
    run::{BrakeTestbed, Subject},
    series::{Series, SeriesPlan},
};
use crate::{
    criterion::Criterion,
    declaration::{BenchResult, Row},
    percentile,
};

/// The replicas.
const REPLICAS: [&str; 2] = ["webhook-0", "webhook-1"];
/// How much of a period must be contended for the brake.
const CONTENDED_SHARE: u32 = 10;
/// How long a replica may take to be ready again, and the agent to be heard by both.
const LIMIT: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The bench.
pub static ROW: Row = Row {
    name: "primary-cut-off",
    about: "How soon a brake halves free CPU in etcd while the replica that writes for the node is stopped. Needs root.",
    flags: PrimaryCutOff::augment_args,
    run: |flags| {
        let report = Runtime::new()?.block_on(PrimaryCutOff::from_arg_matches(flags)?.run())?;
        BenchResult::new(&report, report.criteria())
    },
};

/// `cargo xtask bench primary-cut-off`.
#[derive(Debug, Clone, Args)]
pub struct PrimaryCutOff {
    /// Runs; the load comes at another time of the brake's period in each.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
}

/// The figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CutOffReport {
    /// What was measured and how.
    pub workload: String,
    /// Runs behind each figure; below 100 a p99 is the longest.
    pub runs: usize,
    /// Runs besides, in which others contended for the CPUs, or the brake came before the cut: they say nothing.
    pub disturbed_runs: usize,
    /// From the load's start until free CPU is halved in etcd.
    pub saturation_s_p50: f64,
    /// The same.
    pub saturation_s_p99: f64,
    /// The same.
    pub saturation_s_max: f64,
    /// From the stop of the primary replica until then.
    pub since_cut_s_p50: f64,
    /// The same.
    pub since_cut_s_max: f64,
    /// From the agent's report until then.
    pub publish_s_p50: f64,
    /// The same.
    pub publish_s_max: f64,
    /// Time that the hypervisor gave to somebody else meanwhile, of all CPUs.
    pub stolen_pct: f64,
    /// Each run.
    pub each: Vec<CutOffRun>,
}

/// What one run showed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CutOffRun {
    /// When the load came: so long after the agent began to count its periods, less whole periods.
    pub phase_s: f64,
    /// From the load's start until the primary replica was stopped.
    pub cut_s: f64,
    /// From the load's start until free CPU was halved.
    pub saturation_s: f64,
    /// From the agent's report until then; the report that was counted may be a later one with the same brake.
    pub publish_s: f64,
    /// True if the replica that was stopped was the leader, too.
    pub was_leader: bool,
}

impl CutOffReport {
    /// What must hold.
    pub fn criteria(&self) -> Vec<Criterion> {
        vec![Criterion::at_most(
            "saturation_s_p99",
            self.saturation_s_p99,
            SATURATION_S,
        )]
    }

    fn new(series: Series<CutOffRun>) -> Self {
        let saturation = series.sorted(|run| run.saturation_s);
        let since_cut = series.sorted(|run| run.saturation_s - run.cut_s);
        let publish = series.sorted(|run| run.publish_s);
        Self {
            workload: workload(),
            runs: series.each.len(),
            disturbed_runs: series.disturbed,
            saturation_s_p50: percentile(&saturation, 50),
            saturation_s_p99: percentile(&saturation, 99),
            saturation_s_max: percentile(&saturation, 100),
            since_cut_s_p50: percentile(&since_cut, 50),
            since_cut_s_max: percentile(&since_cut, 100),
            publish_s_p50: percentile(&publish, 50),
            publish_s_max: percentile(&publish, 100),
            stolen_pct: series.stolen_pct,
            each: series.each,
        }
    }
}

impl PrimaryCutOff {
    /// Measures; says beforehand what and how long.
    ///
    /// # Errors
    /// If a part cannot be had or does not do what it must in time.
    async fn run(&self) -> Result<CutOffReport> {
        let total = STARTING + RUN * u32::from(self.runs);
        print(format!("{} About {} in all.", workload(), span(total)));
        let programs = spawn_blocking(Programs::build).await??;
        measure(programs, self.runs).await
    }
}

/// Measures so many runs with these programs. Only root can, as in [`super::measure`].
///
/// # Errors
/// If a part cannot be had or does not do what it must in time.
pub async fn measure(programs: Programs, runs: u16) -> Result<CutOffReport> {
    let mut scene = BrakeTestbed::start(programs, &REPLICAS).await?;
    let plan = SeriesPlan {
        runs,
        prefix: "cut",
        disturbance: "others contended for the CPUs, or the brake came before the cut",
        line: |run: &CutOffRun| {
            format!(
                "primary stopped after {:.2} s, free CPU halved after {:.2} s",
                run.cut_s, run.saturation_s
            )
        },
    };
    let series = plan
        .measure(async |name, phase| scene.run_cut_off(name, phase).await)
        .await?;
    Ok(CutOffReport::new(series))
}

/// Half of what a load that comes so long after a period's beginning has until the end of the first period that counts as
/// contended.
fn half_way(phase: Duration) -> Duration {
    let left = period().saturating_sub(phase);
    let until_counted = if left < period() / CONTENDED_SHARE {
        left + period()
    } else {
        left
    };
    until_counted / 2
}

impl BrakeTestbed {
    /// One run, with the load at that time of the agent's periods; `None` if the CPUs were contended before it came, or free
    /// CPU was halved before the cut. Names differ.
    async fn run_cut_off(&mut self, name: &str, phase: Duration) -> Result<Option<CutOffRun>> {
        let mut subject = self.start_subject(name).await?;
        let run = if self.until_amplified(&mut subject).await? {
            let primary = self.primary(&subject).await?;
            let other = self
                .webhooks
                .iter()
                .enumerate()
                .find(|(place, _)| *place != primary);
            let (_, other) = other.context("no other replica")?;
            self.testbed.register(other).await?;
            if self.is_calm_until(&subject, phase).await? {
                self.cut(&subject, phase, primary).await?
            } else {
                None
            }
        } else {
            None
        };
        self.end(subject).await?;
        Ok(run)
    }

    /// The replica that writes for the node, once the agent is heard by all.
    async fn primary(&self, subject: &Subject) -> Result<usize> {
        let deadline = Instant::now() + LIMIT;
        let is_heard = |status: &Status| {
            let open = status.streams.iter();
            let open = open.filter(|stream| stream.state == StreamState::Open && stream.last_ack.is_some());
            open.count() == self.webhooks.len()
        };
        loop {
            let status = subject.agent.status().await?;
            let primary = status.streams.iter().find(|stream| stream.is_primary);
            let place = primary.and_then(|stream| {
                self.webhooks
                    .iter()
                    .position(|webhook| webhook.hints == stream.peer)
            });
            match place {
                Some(place) if is_heard(&status) => return Ok(place),
                Some(_) | None => {}
            }
            ensure!(Instant::now() < deadline, "no primary among {:?}", status.streams);
            sleep(LOOK_EVERY).await;
        }
    }

    /// Saturates the CPUs, stops the replica half-way, and lets it go on when free CPU is halved.
    async fn cut(&mut self, subject: &Subject, phase: Duration, primary: usize) -> Result<Option<CutOffRun>> {
        let was_leader = self.leader().await?.as_deref() == REPLICAS.get(primary).copied();
        let (onset, load) = Self::start_saturation(subject)?;
        sleep((onset.at + half_way(phase)).saturating_duration_since(Instant::now())).await;
        self.signal(primary, Signal::STOP)?;
        let cut = onset.at.elapsed();
        let reaction = self.halved(subject, onset, Resource::Cpu).await;
        // Whatever came of it: what is stopped does not end when it is asked to.
        self.signal(primary, Signal::CONT)?;
        let reaction = reaction?;
        drop(load);
        self.until_ready(primary).await?;
        Ok((reaction.all > cut).then_some(CutOffRun {
            phase_s: phase.as_secs_f64(),
            cut_s: cut.as_secs_f64(),
            saturation_s: reaction.all.as_secs_f64(),
            publish_s: reaction.publish.as_secs_f64(),
            was_leader,
        }))
    }

    fn signal(&mut self, replica: usize, signal: Signal) -> Result<()> {
        let webhook = self.webhooks.get_mut(replica).context("no such replica")?;
        webhook.process.signal(signal).context("signal a replica")
    }

    /// The name of the replica that leads.
    async fn leader(&self) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.testbed.client.clone(), names::NAMESPACE);
        let lease = leases.get_opt(names::LEASE).await.context("read the lease")?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        Ok(holder.and_then(|holder| Some(holder.split_once('_')?.0.to_owned())))
    }

    /// Waits until a replica that went on is ready again.
    async fn until_ready(&self, replica: usize) -> Result<()> {
        let webhook = self.webhooks.get(replica).context("no such replica")?;
        let deadline = Instant::now() + LIMIT;
        loop {
            if matches!(get(webhook.admin, "/readyz").await, Ok((StatusCode::OK, _))) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{} is not ready again",
                webhook.process.name()
            );
            sleep(LOOK_EVERY).await;
        }
    }
}

fn workload() -> String {
    format!(
        "{} The webhook has two replicas, of which the node's primary is stopped half-way.",
        super::workload()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_comes_before_the_end_of_the_period_that_counts() {
        let seconds = Duration::from_secs_f64;
        for (phase, half) in [(0.0, 5.0), (6.0, 2.0), (9.0, 0.5), (9.5, 5.25)] {
            assert_eq!(half_way(seconds(phase)), seconds(half), "{phase}");
        }
    }

    #[test]
    fn the_longest_of_few_runs_decides() {
        let run = |cut_s, saturation_s| CutOffRun {
            phase_s: 1.0,
            cut_s,
            saturation_s,
            publish_s: 0.5,
            was_leader: false,
        };
        let report = CutOffReport::new(Series {
            each: vec![run(4.0, 9.0), run(1.0, 12.75), run(2.0, 6.0)],
            disturbed: 1,
            stolen_pct: 0.0,
        });
        assert_eq!(
            (
                report.saturation_s_p99,
                report.since_cut_s_p50,
                report.since_cut_s_max
            ),
            (12.75, 5.0, 11.75)
        );
        let [criterion] = &report.criteria()[..] else {
            panic!("one criterion");
        };
        assert!(!criterion.range.contains(&criterion.measured));
    }
}
