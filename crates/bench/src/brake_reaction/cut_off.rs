//! `bench primary-cut-off`: the time from the start of CPU saturation until free CPU in etcd is halved, if the
//! primary replica is stopped meanwhile.
//!
//! As in `brake-reaction`, with two replicas. The agent selects one of them as its primary, which writes for the
//! node. That replica receives SIGSTOP half-way between the start of the load and the end of the period that will
//! count as contended. Its kernel still acknowledges data that the process does not read, as on a hanging node. The
//! API server calls the other replica throughout, as it does once the stopped one is no longer ready. The clock runs
//! from before the load's start until a watch delivers the revision.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args as _;
use headroom_agent::local::status::{Status, StreamState};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::programs::{Programs, get};
use hyper::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::Signal;
use serde::Serialize;
use tokio::time::sleep;

use super::{
    SATURATION_S, period,
    run::{BrakeTestbed, Subject},
    series::{RunCount, Series, SeriesPlan},
};
use crate::{
    criterion::Criterion,
    declaration::{Report, Row, run_async},
};

const REPLICAS: [&str; 2] = ["webhook-0", "webhook-1"];
/// Divisor of the period: the contended share that triggers the brake.
const CONTENDED_SHARE: u32 = 10;
/// Limit until a replica is ready again, and until both replicas have received a report.
const LIMIT: Duration = Duration::from_secs(60);
const POLL_EVERY: Duration = Duration::from_millis(100);

pub static ROW: Row = Row {
    name: "primary-cut-off",
    about: "Measures the time until a brake halves free CPU in etcd while the primary replica of the node is stopped. Needs root.",
    flags: RunCount::augment_args,
    run: |flags| {
        run_async(flags, async |count: RunCount| {
            count.run(&workload(), measure).await
        })
    },
};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CutOffReport {
    /// Description of load and set-up.
    pub workload: String,
    /// Runs behind each figure; below 100, a p99 is the longest.
    pub runs: usize,
    /// Additional runs that do not count: other processes contended for the CPUs, or the brake preceded the stop.
    pub disturbed_runs: usize,
    /// Time from the load's start until free CPU is halved in etcd.
    pub saturation_s_p50: f64,
    pub saturation_s_p99: f64,
    pub saturation_s_max: f64,
    /// Time from the stop of the primary replica until free CPU is halved.
    pub since_cut_s_p50: f64,
    pub since_cut_s_max: f64,
    /// Time from the agent's report until free CPU is halved.
    pub publish_s_p50: f64,
    pub publish_s_max: f64,
    /// CPU time that the hypervisor gave to other machines meanwhile, in percent of all CPUs.
    pub stolen_pct: f64,
    pub each: Vec<CutOffRun>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CutOffRun {
    /// Start of the load within a brake period of the agent.
    pub phase_s: f64,
    /// Time from the load's start until the primary replica was stopped.
    pub cut_s: f64,
    /// Time from the load's start until free CPU was halved.
    pub saturation_s: f64,
    /// Time from the agent's report until free CPU was halved; the report may be a later one with the same brake.
    pub publish_s: f64,
    /// True if the stopped replica was also the leader.
    pub was_leader: bool,
}

impl Report for CutOffReport {
    fn criteria(&self) -> Vec<Criterion> {
        vec![Criterion::at_most(
            "saturation_s_p99",
            self.saturation_s_p99,
            SATURATION_S,
        )]
    }
}

impl CutOffReport {
    fn new(series: Series<CutOffRun>) -> Self {
        let saturation = series.figure(|run| run.saturation_s);
        let since_cut = series.figure(|run| run.saturation_s - run.cut_s);
        let publish = series.figure(|run| run.publish_s);
        Self {
            workload: workload(),
            runs: series.each.len(),
            disturbed_runs: series.disturbed,
            saturation_s_p50: saturation.p50,
            saturation_s_p99: saturation.p99,
            saturation_s_max: saturation.max,
            since_cut_s_p50: since_cut.p50,
            since_cut_s_max: since_cut.max,
            publish_s_p50: publish.p50,
            publish_s_max: publish.max,
            stolen_pct: series.stolen_pct,
            each: series.each,
        }
    }
}

/// Measures with these programs. Needs root, as [`super::measure`].
///
/// # Errors
/// If a part cannot be started or misses its time limit.
pub async fn measure(programs: Programs, runs: u16) -> Result<CutOffReport> {
    let mut testbed = BrakeTestbed::start(programs, &REPLICAS).await?;
    let plan = SeriesPlan {
        runs,
        prefix: "cut",
        disturbance: "other processes contended for the CPUs, or the brake preceded the stop of the primary",
        line: |run: &CutOffRun| {
            format!(
                "primary stopped after {:.2} s, free CPU halved after {:.2} s",
                run.cut_s, run.saturation_s
            )
        },
    };
    let series = plan
        .measure(async |name, phase| testbed.run_cut_off(name, phase).await)
        .await?;
    Ok(CutOffReport::new(series))
}

/// Delay between a load that starts at `phase` within a period and the stop: half of the time until the end of the
/// first period that counts as contended.
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
    /// One run whose load starts at `phase` of the agent's period. `None` if the CPUs were contended before, or free
    /// CPU was halved before the stop. `name` must be new.
    async fn run_cut_off(&mut self, name: &str, phase: Duration) -> Result<Option<CutOffRun>> {
        let mut subject = self.start_subject(name).await?;
        let run = if self.until_amplified(&mut subject).await? {
            let primary = self.primary(&subject).await?;
            let other = self
                .webhooks
                .iter()
                .enumerate()
                .find(|(place, _)| *place != primary);
            let (_, other) = other.context("there is no other replica")?;
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

    /// Index of the replica that writes for the node, once all replicas have acknowledged a report.
    async fn primary(&self, subject: &Subject) -> Result<usize> {
        let deadline = Instant::now() + LIMIT;
        let is_acknowledged = |status: &Status| {
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
                Some(place) if is_acknowledged(&status) => return Ok(place),
                Some(_) | None => {}
            }
            ensure!(
                Instant::now() < deadline,
                "the agent has no primary replica: {:?}",
                status.streams
            );
            sleep(POLL_EVERY).await;
        }
    }

    /// Saturates the CPUs, stops the replica half-way, and resumes it once free CPU is halved.
    async fn cut(&mut self, subject: &Subject, phase: Duration, primary: usize) -> Result<Option<CutOffRun>> {
        let was_leader = self.leader().await?.as_deref() == REPLICAS.get(primary).copied();
        let (onset, load) = Self::start_saturation(subject)?;
        sleep((onset.at + half_way(phase)).saturating_duration_since(Instant::now())).await;
        self.signal(primary, Signal::STOP)?;
        let cut = onset.at.elapsed();
        let reaction = self.until_halved(subject, onset, Resource::Cpu).await;
        // In any case: a stopped process does not react to a request to end.
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
        let webhook = self
            .webhooks
            .get_mut(replica)
            .context("there is no such replica")?;
        webhook.process.signal(signal).context("cannot signal a replica")
    }

    /// Name of the leader replica.
    async fn leader(&self) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.testbed.client.clone(), names::NAMESPACE);
        let lease = leases
            .get_opt(names::LEASE)
            .await
            .context("cannot read the lease")?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        Ok(holder.and_then(|holder| Some(holder.split_once('_')?.0.to_owned())))
    }

    /// Waits until a resumed replica is ready again.
    async fn until_ready(&self, replica: usize) -> Result<()> {
        let webhook = self.webhooks.get(replica).context("there is no such replica")?;
        let deadline = Instant::now() + LIMIT;
        loop {
            if matches!(get(webhook.admin, "/readyz").await, Ok((StatusCode::OK, _))) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{} did not become ready again",
                webhook.process.name()
            );
            sleep(POLL_EVERY).await;
        }
    }
}

fn workload() -> String {
    format!(
        "{} The webhook has two replicas; the node's primary is stopped half-way.",
        super::workload()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_precedes_the_end_of_the_counted_period() {
        let seconds = Duration::from_secs_f64;
        for (phase, half) in [(0.0, 5.0), (6.0, 2.0), (9.0, 0.5), (9.5, 5.25)] {
            assert_eq!(half_way(seconds(phase)), seconds(half), "{phase}");
        }
    }

    #[test]
    fn below_100_runs_the_p99_is_the_longest() {
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
        assert!(!criterion.is_met());
    }
}
