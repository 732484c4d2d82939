//! Elastic fleets: nodes that live for hours, Deployments that roll daily, autoscaled replicas and Jobs, next to the
//! static fleet of the same services.
//!
//! All pods belong to workloads of a group of nodes. Raw Kubernetes, Headroom's policy, and the policy with trust by
//! workload run on each fleet with the same seeds.

mod demand;
mod fleet;
#[cfg(test)]
mod tests;

use anyhow::Result;
use headroom_domain::resource::Resource;
use serde::Serialize;

use self::fleet::Fleet;
use super::{
    closed::{Run, in_parallel},
    policy::{self, Kind, OURS, RAW, WITH_WORKLOADS},
    report::{PolicyOutcome, PolicyRow, rounded},
    source::{DAY, GROUP, HOUR},
    synthetic::Synthetic,
};

/// FleetShape of a fleet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FleetShape {
    name: &'static str,
    /// Mean life of a node in frames; `None` for nodes that outlive the run.
    node_life: Option<usize>,
    /// True if each Deployment is rolled daily.
    has_rollouts: bool,
    /// Share of autoscaled services, in percent. Their pods live for six hours on average.
    autoscaled_percent: u32,
    /// Share of requests in Jobs that end within an hour, in percent.
    jobs_percent: u64,
}

/// Nodes outlive the run, and so do most pods: their mean life is six days.
const STATIC: FleetShape = FleetShape {
    name: "static",
    node_life: None,
    has_rollouts: false,
    autoscaled_percent: 0,
    jobs_percent: 0,
};

/// Nodes live for 12 hours on average, each Deployment is rolled daily, 30 % of the services are autoscaled, and a fifth
/// of the requests is in Jobs.
const ELASTIC: FleetShape = FleetShape {
    name: "elastic",
    node_life: Some(DAY / 2),
    has_rollouts: true,
    autoscaled_percent: 30,
    jobs_percent: 20,
};

/// Nodes that outlive the run, with the pods of an elastic fleet.
const CHURN: FleetShape = FleetShape {
    name: "static nodes, elastic pods",
    node_life: None,
    ..ELASTIC
};

/// Mean life of a pod without rollouts, in frames.
const POD_LIFE: usize = 6 * DAY;
/// Mean life of an autoscaled pod, in frames.
const AUTOSCALED_LIFE: usize = 6 * HOUR;

/// Figures of a policy on one fleet.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ElasticRow {
    name: String,
    fleet: &'static str,
    requests_per_allocatable: f64,
    /// Requests in addition to those of raw, in percent.
    requests_gained_pct: f64,
    /// Gain divided by that of Headroom's policy on the static fleet.
    share_of_static_gain: f64,
    /// Frames with F > C, in percent.
    violation_pct: f64,
    /// `violation_pct` minus that of raw.
    excess_pct: f64,
    /// Half the 95 % interval of the excess.
    excess_interval_pct: Option<f64>,
    ratio_p5: f64,
    ratio_p50: f64,
    ratio_p95: f64,
}

/// Policies that elastic fleets compare, raw first.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    let names = [RAW, OURS, WITH_WORKLOADS];
    policy::all().filter(move |kind| names.contains(&kind.name))
}

/// Runs all fleets under each policy. `run` returns the parameters of a seed's run; `log` receives the current step.
///
/// # Errors
/// If a thread ended early.
pub(super) fn rows<'a>(
    loads: &'a [Synthetic],
    run: impl Fn(&'a Synthetic) -> Run<'a>,
    log: impl Fn(&str),
) -> Result<Vec<ElasticRow>> {
    let mut rows: Vec<ElasticRow> = Vec::new();
    let mut static_gain = None;
    for shape in [STATIC, CHURN, ELASTIC] {
        let mut raw = None;
        for kind in kinds() {
            let mut outcome = PolicyOutcome::default();
            for load in loads {
                log(&format!("{} fleet, {}", shape.name, kind.name));
                let run = run(load);
                let play = |group| Fleet::new(&run, load, group, shape, kind).play();
                let groups = in_parallel(run.nodes.div_ceil(GROUP), play)?;
                outcome.seeds.push(groups.into_iter().flatten().collect());
            }
            let row = outcome.row("", Resource::Cpu, kind.name, raw.as_ref().unwrap_or(&outcome));
            if kind.name == OURS {
                static_gain.get_or_insert(row.requests_gained_pct);
            }
            rows.push(ElasticRow::new(row, shape.name, static_gain));
            raw.get_or_insert(outcome);
        }
    }
    Ok(rows)
}

impl ElasticRow {
    fn new(row: PolicyRow, fleet: &'static str, static_gain: Option<f64>) -> Self {
        let PolicyRow {
            name,
            requests_per_allocatable,
            requests_gained_pct,
            violation_pct,
            excess_pct,
            excess_interval_pct,
            ratio_p5,
            ratio_p50,
            ratio_p95,
            ..
        } = row;
        Self {
            name,
            fleet,
            requests_per_allocatable,
            requests_gained_pct,
            share_of_static_gain: static_gain.map_or(0.0, |gain| rounded(requests_gained_pct / gain)),
            violation_pct,
            excess_pct,
            excess_interval_pct,
            ratio_p5,
            ratio_p50,
            ratio_p95,
        }
    }
}
