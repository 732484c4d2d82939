//! Simulates nodes to compare overcommitment policies on the same pods: additional requests, violations, ratios.
//!
//! Run by `cargo xtask bench estimator`. Headroom's policy runs the agent's own estimator; the other policies are
//! implemented from their published definitions. Nothing is measured on this machine. In the closed loop each node
//! refills from an endless backlog whenever its policy leaves room, which is adversarial and shows feedback. Only
//! differences to raw with the same seeds are meaningful.
#![forbid(unsafe_code)]

mod args;
mod closed;
mod contention;
mod convert;
#[cfg(test)]
mod correlated;
mod elastic;
mod figures;
mod frontier;
mod illustrations;
mod node;
mod open;
mod openmetrics;
mod page;
mod paired;
mod policy;
mod random;
mod report;
mod rollouts;
mod section;
mod source;
mod study;
mod synthetic;
mod trace;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use headroom_agent::args::MarginCalibration;
use headroom_domain::{policy::Bounds, ratio::Cents, resource::Resource};
use serde::Serialize;

pub use self::openmetrics::FROM_S as PAST_FROM_S;
use self::{
    args::{Brakes, Loops, Seeds},
    elastic::ElasticRow,
    frontier::{DominanceRow, FrontierRow},
    open::OpenRow,
    paired::PairedRow,
    policy::{Kind, RAW, Settings},
    report::{Parameters, PolicyRow, VIOLATION},
    rollouts::RolloutRow,
    source::Machine,
    study::{Load, Study},
    trace::Set,
};

/// Minimum number of days for traces.
const TRACE_DAYS: u32 = 10;

/// Flags of `cargo xtask bench estimator`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Estimator {
    /// Run the synthetic load; this is the default without --trace.
    #[arg(long, conflicts_with = "trace")]
    synthetic: bool,
    /// Folder of traces, files SET-RESOURCE-DAY.csv.gz; every set in it is run, for CPU and for memory.
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Run only this set of the folder; may be repeated.
    #[arg(long, value_name = "NAME", requires = "trace")]
    set: Vec<String>,
    /// Seeds: a number, a list (1,3) or a range (101-105).
    #[arg(long, default_value = "1")]
    seed: Seeds,
    /// Number of nodes, each with 32 CPUs and 128 GiB; groups of eight share service classes.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: u32,
    /// Number of days, of which the first three do not count; at least ten for traces.
    #[arg(long, default_value_t = 28, value_parser = clap::value_parser!(u32).range(4..=365))]
    days: u32,
    /// Coefficient of variation of a pod's use within a frame (0 to 3); 0 for traces without additional variation.
    #[arg(long, default_value_t = 0.5, value_parser = args::variation)]
    cv: f64,
    /// theta of Headroom's policy: the share of capacity that predicted use may reach (0.50 to 1.00).
    #[arg(long, default_value_t = 0.9, value_parser = args::share)]
    theta: f64,
    /// Lowest ratio of all policies without a fixed ratio, in cents (50 to 100).
    #[arg(long, value_name = "CENTS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(50..=100))]
    lo: u32,
    /// Highest ratio of all policies that limit it, in cents (100 to 1000).
    #[arg(long, value_name = "CENTS", default_value_t = 200, value_parser = clap::value_parser!(u32).range(100..=1000))]
    hi: u32,
    /// Let outcomes calibrate the margin of Headroom's policy.
    #[arg(long, value_enum, default_value_t)]
    margin_calibration: MarginCalibration,
    /// Let Headroom's policy brake as the agent does.
    #[arg(long, value_enum, default_value_t)]
    brakes: Brakes,
    /// Loops to run: closed (nodes refill under each policy), open (all policies predict for pods placed by raw), or
    /// both.
    #[arg(long = "loop", value_enum, default_value_t)]
    loops: Loops,
    /// Run only this policy and raw; may be repeated. Variants of Headroom's policy run only when named.
    #[arg(long, value_name = "NAME", value_parser = args::policy)]
    policy: Vec<String>,
    /// Also run Headroom's policy and the oracle at several values of theta, and compare all other policies with
    /// them.
    #[arg(long)]
    frontier: bool,
    /// Values of theta for --frontier, as a list (0.80,0.85), instead of the built-in ones.
    #[arg(long, value_name = "THETAS", value_delimiter = ',', value_parser = args::share, requires = "frontier")]
    along: Vec<f64>,
    /// Also run rollouts on full nodes: Deployments that roll daily and DaemonSets that roll monthly, under raw and
    /// Headroom's policy with and without places and succession.
    #[arg(long, conflicts_with = "trace")]
    rollouts: bool,
    /// Also run elastic fleets: nodes that live for 12 hours, Deployments that roll daily, autoscaled replicas and Jobs,
    /// under raw, Headroom's policy, and Headroom's policy with trust by workload.
    #[arg(long, conflicts_with = "trace")]
    elastic: bool,
    /// Write a report with plots to this file, including the frontier.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the synthetic nodes of the first seed under raw Kubernetes to this file, as scraped by a Prometheus
    /// server, and add the results of Headroom's policy on them to the report.
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    openmetrics: Option<PathBuf>,
}

/// The figures of all policies.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    parameters: Parameters,
    policies: Vec<PolicyRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_loop: Vec<OpenRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    frontier: Vec<FrontierRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dominance: Vec<DominanceRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paired: Vec<PairedRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    past: Vec<openmetrics::PoolRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rollouts: Vec<RolloutRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elastic: Vec<ElasticRow>,
}

impl Estimator {
    /// Runs the simulation.
    ///
    /// # Errors
    /// If options contradict each other or the trace folder is invalid.
    pub fn run(&self) -> Result<Report> {
        let sets = self.sets()?;
        let loads: Vec<Load<'_>> = if self.trace.is_some() {
            sets.iter().map(Load::Trace).collect()
        } else {
            vec![Load::Synthetic]
        };
        let mut report = Report {
            parameters: self.parameters(&loads),
            policies: Vec::new(),
            open_loop: Vec::new(),
            frontier: Vec::new(),
            dominance: Vec::new(),
            paired: Vec::new(),
            past: Vec::new(),
            rollouts: Vec::new(),
            elastic: Vec::new(),
        };
        let mut sections = Vec::new();
        for load in loads {
            let study = self.study(load);
            let findings = study.findings()?;
            if let Some(file) = &self.openmetrics {
                report.past = study.past(file)?;
            }
            if self.html.is_some() {
                sections.push(study.section(findings.clone())?);
            }
            report.policies.extend(findings.policies);
            report.open_loop.extend(findings.open_loop);
            report.frontier.extend(findings.frontier);
            report.dominance.extend(findings.dominance);
            report.paired.extend(findings.paired);
            report.rollouts.extend(findings.rollouts);
            report.elastic.extend(findings.elastic);
        }
        if let Some(file) = &self.html {
            fs::write(file, page::html(&report.parameters, &sections))
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(report)
    }

    fn parameters(&self, loads: &[Load<'_>]) -> Parameters {
        let mut sources: Vec<&str> = loads.iter().map(Load::name).collect();
        sources.dedup();
        Parameters {
            source: sources.join(", "),
            seed: self.seed.clone(),
            nodes: self.nodes,
            days: self.days,
            discarded_days: Parameters::discarded(),
            cv: self.cv,
            theta: self.theta,
            margin_calibration: self.margin_calibration == MarginCalibration::On,
            brakes: self.brakes == Brakes::On,
            lo_cents: self.lo,
            hi_cents: self.hi,
            violation: VIOLATION,
        }
    }

    fn study<'a>(&'a self, load: Load<'a>) -> Study<'a> {
        Study {
            load,
            seeds: &self.seed.0,
            nodes: self.nodes,
            days: self.days,
            cv: self.cv,
            settings: self.settings(load.resource()),
            loops: self.loops,
            kinds: self.kinds().collect(),
            along: self.along.iter().map(|&theta| millionths(theta)).collect(),
            has_frontier: self.frontier || self.html.is_some(),
            has_rollouts: self.rollouts,
            has_elastic: self.elastic,
        }
    }

    /// The selected sets of the trace folder.
    fn sets(&self) -> Result<Vec<Set>> {
        let Some(folder) = &self.trace else {
            return Ok(Vec::new());
        };
        ensure!(
            self.days >= TRACE_DAYS,
            "--days {}: traces need at least {TRACE_DAYS} days",
            self.days
        );
        let mut sets = trace::sets(folder)?;
        for name in &self.set {
            let is_there = sets.iter().any(|set| set.name == *name);
            ensure!(is_there, "--set {name}: no such set in {}", folder.display());
        }
        sets.retain(|set| self.set.is_empty() || self.set.contains(&set.name));
        Ok(sets)
    }

    /// The selected policies, raw first.
    fn kinds(&self) -> impl Iterator<Item = &'static Kind> + '_ {
        let is_idea = |kind: &Kind| policy::IDEAS.iter().any(|idea| idea.name == kind.name);
        let is_asked_for = move |kind: &Kind| match self.policy.as_slice() {
            [] => !is_idea(kind),
            asked => asked.iter().any(|name| name == kind.name),
        };
        policy::all().filter(move |kind| kind.name == RAW || is_asked_for(kind))
    }

    fn settings(&self, resource: Resource) -> Settings {
        Settings {
            resource,
            machine: Machine::for_resource(resource),
            bounds: Bounds {
                min: Cents(self.lo),
                max: Cents(self.hi),
            },
            theta_ppm: millionths(self.theta),
            is_calibrated: self.margin_calibration == MarginCalibration::On,
            has_brakes: self.brakes == Brakes::On,
            oracle_ppm: 1_000_000,
        }
    }
}

fn millionths(share: f64) -> u32 {
    u32::try_from(convert::whole((share * 1e6).round())).unwrap_or_default()
}

#[cfg(test)]
mod tests;
