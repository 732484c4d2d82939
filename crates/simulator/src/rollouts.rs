//! Rollouts on full nodes: controllers replace their pods while an endless backlog fills the rest of each node.
//!
//! A waiting pod counts as delayed by the policy if it would fit, had each allocatable stayed as before the rollout's
//! first departure. Raw Kubernetes never lowers allocatable and has none of these.

mod controller;
mod fleet;
mod host;
mod pending;
#[cfg(test)]
mod tests;

use anyhow::Result;
use headroom_domain::resource::Resource;
use serde::Serialize;

use self::{controller::Strategy, fleet::Group, pending::Pending};
use super::{
    closed::{Run, in_parallel},
    figures::Figures,
    policy::{self, Kind, OURS, RAW, WITHOUT_PLACES, WITHOUT_SUCCESSION},
    report::{PolicyOutcome, PolicyRow},
    source::GROUP,
    synthetic::Synthetic,
};

/// Strategies of Deployments, at eight pods each.
const STRATEGIES: [(&str, Strategy); 2] = [
    (
        "maxSurge 25 %, maxUnavailable 0",
        Strategy {
            surge: 2,
            unavailable: 0,
        },
    ),
    (
        "maxSurge 0, maxUnavailable 25 %",
        Strategy {
            surge: 0,
            unavailable: 2,
        },
    ),
];

/// Figures of a policy with rollouts, for one strategy of Deployments.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RolloutRow {
    name: String,
    /// Strategy of Deployments.
    strategy: &'static str,
    requests_per_allocatable: f64,
    /// Requests in addition to those of raw, in percent.
    requests_gained_pct: f64,
    /// Frames with F > C, in percent.
    violation_pct: f64,
    /// `violation_pct` minus that of raw.
    excess_pct: f64,
    /// Half the 95 % interval of the excess.
    excess_interval_pct: Option<f64>,
    daemon_set_rollouts: u64,
    daemon_set_pods: u64,
    /// Pods that waited for a frame at least before they were bound.
    daemon_set_pods_delayed: u64,
    /// Pod-minutes of all waiting pods.
    daemon_set_pending_minutes: u64,
    /// Pod-minutes in which the pod would have fit, had each allocatable stayed as before the rollout's first departure.
    daemon_set_pending_by_policy_minutes: u64,
    /// Part of that in the first ten minutes after the pod's creation.
    daemon_set_pending_at_first_minutes: u64,
    deployment_rollouts: u64,
    deployment_pods: u64,
    deployment_pods_delayed: u64,
    deployment_pending_minutes: u64,
    deployment_pending_by_policy_minutes: u64,
    /// Part of that in the first ten minutes after the pod's creation.
    deployment_pending_at_first_minutes: u64,
}

/// Results of one policy with one strategy.
#[derive(Debug, Default)]
struct RolloutOutcome {
    figures: PolicyOutcome,
    pending: Pending,
}

impl RolloutOutcome {
    fn add(&mut self, groups: Vec<(Vec<Figures>, Pending)>) {
        let mut of_seed = Vec::new();
        for (figures, pending) in groups {
            of_seed.extend(figures);
            self.pending.add(&pending);
        }
        self.figures.seeds.push(of_seed);
    }

    fn row(&self, name: &str, strategy: &'static str, raw: &Self) -> RolloutRow {
        let row = self.figures.row("", Resource::Cpu, name, &raw.figures);
        let PolicyRow {
            name,
            requests_per_allocatable,
            requests_gained_pct,
            violation_pct,
            excess_pct,
            excess_interval_pct,
            ..
        } = row;
        let Pending { daemon_sets, others } = self.pending;
        RolloutRow {
            name,
            strategy,
            requests_per_allocatable,
            requests_gained_pct,
            violation_pct,
            excess_pct,
            excess_interval_pct,
            daemon_set_rollouts: daemon_sets.finished,
            daemon_set_pods: daemon_sets.bound,
            daemon_set_pods_delayed: daemon_sets.delayed,
            daemon_set_pending_minutes: daemon_sets.all_minutes(),
            daemon_set_pending_by_policy_minutes: daemon_sets.minutes_by_policy(),
            daemon_set_pending_at_first_minutes: daemon_sets.minutes_at_first(),
            deployment_rollouts: others.finished,
            deployment_pods: others.bound,
            deployment_pods_delayed: others.delayed,
            deployment_pending_minutes: others.all_minutes(),
            deployment_pending_by_policy_minutes: others.minutes_by_policy(),
            deployment_pending_at_first_minutes: others.minutes_at_first(),
        }
    }
}

/// Policies that rollouts compare, raw first.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    let names = [RAW, WITHOUT_PLACES, WITHOUT_SUCCESSION, OURS];
    policy::all().filter(move |kind| names.contains(&kind.name))
}

/// Runs rollouts under each policy and strategy. `run` returns the parameters of a seed's run; `log` receives the
/// current step.
///
/// # Errors
/// If a load cannot be made or a thread ended early.
pub(super) fn rows<'a>(
    loads: &'a [Synthetic],
    run: impl Fn(&'a Synthetic) -> Run<'a>,
    log: impl Fn(&str),
) -> Result<Vec<RolloutRow>> {
    let mut rows = Vec::new();
    for (about, strategy) in STRATEGIES {
        let mut raw = None;
        for kind in kinds() {
            let mut outcome = RolloutOutcome::default();
            for load in loads {
                log(&format!("rollouts with {about}, {}", kind.name));
                let run = run(load);
                let group = |number| {
                    Group::new(&run, load, number, kind)
                        .with_controllers(strategy)
                        .play()
                };
                outcome.add(in_parallel(run.nodes.div_ceil(GROUP), group)?);
            }
            rows.push(outcome.row(kind.name, about, raw.as_ref().unwrap_or(&outcome)));
            raw.get_or_insert(outcome);
        }
    }
    Ok(rows)
}
