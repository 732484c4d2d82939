//! `bench fleet`: memory and CPU time of one replica in a large fleet, and the latency of its reviews.
//!
//! The replica is real: stores and informers, hint table, nudger, sweeper, hint service and router, pinned to one
//! CPU. API server, kubelets and agents are stand-ins in the same process, on another CPU. Every write of a Node
//! passes through the replica's admission port, over TLS, and returns on its watch. The replica's memory is the
//! resident memory of the process minus that of the stand-ins with all agents connected, which is measured first.

mod admission;
mod agents;
mod api_client;
mod api_server;
mod cases;
mod grpc_stream;
mod idle_port;
mod kubelets;
mod measure;
mod objects;
mod pinning;
mod replica;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, FromArgMatches as _};
use headroom_webhook::control::rates::Rates;
use serde::Serialize;
use xtask::terminal::{print, span};

use self::{cases::Fleet, measure::Case, pinning::Cpus};
use super::{
    declaration::{BenchResult, Report, Row},
    target::FigureTarget,
};

/// Nodes that brake within one second.
const BRAKES: usize = 500;
/// Report interval of an agent.
const REPORT_EVERY: Duration = Duration::from_secs(15);
/// Length of the quiet case, and minimum length of all other cases.
const QUIET: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_secs(10);
/// Estimated duration of start and reconnection.
const START: Duration = Duration::from_secs(60);

pub static ROW: Row = Row {
    name: "fleet",
    about: "Measures one replica in a large fleet of simulated nodes: memory, CPU time, writes and review latency while many nodes change at once.",
    flags: Flags::augment_args,
    run: |flags| {
        let plan = Plan::from_flags(&Flags::from_arg_matches(flags)?);
        plan.announce();
        let report = run(&plan)?;
        for target in report.targets() {
            print(target);
        }
        BenchResult::new(&report)
    },
};

/// Flags of `cargo xtask bench fleet`.
#[derive(Debug, Clone, Args)]
struct Flags {
    /// Number of nodes, each with an agent.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=9_000))]
    nodes: u32,
    /// Number of pods, spread evenly over the nodes.
    #[arg(long, default_value_t = 150_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pods: u32,
}

/// Sizes, rates and durations of one run.
#[derive(Debug, Clone, Copy)]
struct Plan {
    nodes: usize,
    pods: usize,
    rates: Rates,
    report_every: Duration,
    quiet: Duration,
    shortest: Duration,
}

#[derive(Debug, Clone, Serialize)]
struct FleetReport {
    setting: String,
    nodes: usize,
    pods: usize,
    /// Resident memory with all agents connected, before the first replica started: the stand-ins.
    stand_ins_mib: f64,
    /// Reports that the replica refused, in all cases.
    refused_reports: usize,
    cases: Vec<Case>,
}

impl Plan {
    fn from_flags(flags: &Flags) -> Self {
        Self {
            nodes: flags.nodes as usize,
            pods: flags.pods as usize,
            rates: Rates::DEFAULT,
            report_every: REPORT_EVERY,
            quiet: QUIET,
            shortest: SHORTEST,
        }
    }

    fn brakes(&self) -> usize {
        self.nodes.min(BRAKES)
    }

    /// Time until the ratios of all nodes have risen at the limited rate.
    fn rises(&self) -> Duration {
        let nodes = u32::try_from(self.nodes).unwrap_or(u32::MAX);
        let a_second = (nodes.saturating_mul(self.rates.rise_percent) / 100).max(1);
        Duration::from_secs(nodes.div_ceil(a_second).into())
    }

    fn announce(&self) {
        let total = self.rises() * 2 + self.quiet + self.shortest * 4 + START;
        print(format!(
            "{} nodes with {} pods; agents report every {} s, kubelets every {} s. Cases: mode auto for all nodes, quiet for {}, \
             {} brakes within a second, a higher maximum, and two restarts of the replica. About {} in all.",
            self.nodes,
            self.pods,
            self.report_every.as_secs(),
            kubelets::SYNC_EVERY.as_secs(),
            span(self.quiet),
            self.brakes(),
            span(total),
        ));
    }
}

impl Report for FleetReport {}

impl FleetReport {
    fn targets(&self) -> Vec<FigureTarget> {
        let target = FigureTarget::at_most;
        let case = |name| self.cases.iter().find(move |case| case.name == name);
        let figure = |name, of: fn(&Case) -> Option<f64>| case(name).and_then(of).unwrap_or(f64::NAN);
        let largest = self.cases.iter().map(|case| case.replica_mib).fold(0.0, f64::max);
        let mut targets = vec![
            target(
                "replica_mib, without restarts",
                largest_before_restarts(&self.cases),
                300.0,
            ),
            target("replica_mib, largest of all", largest, 300.0),
            target(
                "quiet: CPU seconds per second",
                figure(cases::QUIET, |case| Some(case.cpu_s_per_min / 60.0)),
                0.5,
            ),
            target(
                "brakes: applied_s",
                figure(cases::BRAKES, |case| case.applied_s),
                2.0,
            ),
        ];
        let reviews = self
            .cases
            .iter()
            .map(|case| target(case.name, case.review_p99_ms, 5.0));
        targets.extend(reviews);
        targets
    }
}

/// A second replica in the same process reuses memory that the allocator kept from the first, so later cases measure
/// less.
fn largest_before_restarts(cases: &[Case]) -> f64 {
    let before = cases.iter().take_while(|case| case.name != cases::RESTART);
    before.map(|case| case.replica_mib).fold(0.0, f64::max)
}

/// # Errors
/// If the machine has one CPU, or the fleet does not start.
fn run(plan: &Plan) -> Result<FleetReport> {
    ensure!(plan.nodes > 0, "the fleet has no nodes");
    let cpus = Cpus::choose()?;
    headroom_testbed::thread::stay_on(cpus.load)?;
    let load = pinning::runtime("load", cpus.load)?;
    let report = load.block_on(measured(plan, cpus, load.handle()));
    load.shutdown_background();
    report
}

async fn measured(plan: &Plan, cpus: Cpus, load: &tokio::runtime::Handle) -> Result<FleetReport> {
    let mut fleet = Fleet::start(*plan, cpus, load).await?;
    let cases = fleet.cases().await?;
    let (least, most) = (api_server::WRITE_MS.start(), api_server::WRITE_MS.end());
    Ok(FleetReport {
        setting: format!(
            "The replica runs on CPU {}, the stand-ins on CPU {}. A write takes {least} to {most} ms after its review. A frame of \
             a hint lasts 1 s. Reviews have 80 kB and use TLS; agents use plain TCP except in the last row.",
            cpus.server, cpus.load
        ),
        nodes: plan.nodes,
        pods: plan.pods,
        stand_ins_mib: fleet.stand_ins_mib,
        refused_reports: fleet.agents.refused(),
        cases,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small and fast: the test only checks that every case completes.
    #[test]
    fn every_case_completes_in_a_small_fleet() {
        let plan = Plan {
            nodes: 40,
            pods: 120,
            rates: Rates {
                rise_percent: 50,
                ..Rates::DEFAULT
            },
            report_every: Duration::from_secs(1),
            quiet: Duration::from_secs(2),
            shortest: Duration::from_secs(2),
        };
        let report = run(&plan).unwrap();
        let names: Vec<_> = report.cases.iter().map(|case| case.name).collect();
        assert_eq!(names, cases::ALL);
        for case in &report.cases {
            let Case {
                name,
                applied_s,
                reviews,
                previews,
                ..
            } = case;
            assert_eq!(applied_s.is_some(), *name != cases::QUIET, "{name}");
            assert!(*reviews > 0 && *previews > 0, "{case:?}");
        }
        let of = |name| report.cases.iter().find(|case| case.name == name).unwrap();
        for name in [cases::AUTO, cases::RAISED] {
            assert!(of(name).writes >= plan.nodes, "{:?}", of(name));
        }
        assert!(of(cases::AUTO).nudges >= plan.nodes, "{:?}", of(cases::AUTO));
        assert!(
            of(cases::BRAKES).writes >= plan.brakes(),
            "{:?}",
            of(cases::BRAKES)
        );
        assert_eq!(report.targets().len(), 4 + cases::ALL.len());
    }
}
