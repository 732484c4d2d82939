//! Finds the fault of a Node, if it has one, and chooses the leader's remedy: a touch or a nudge.

use headroom_domain::{
    capacity::{self, Decision, amount},
    hint::{EffectiveHint, Freshness, Origin},
    names,
    resource::{PerResource, Resource},
};

use crate::{
    control::nudge::{self, Nudge},
    store::{cluster::Cluster, node::Node},
};

/// Direction in which the sweep's patch moves allocatable, in the order of urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SweepDirection {
    /// Lowers at least one resource, or removes our values.
    Lower,
    /// Restores at most the last value that we wrote.
    Repair,
    Rise,
}

/// The fault of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub(super) direction: SweepDirection,
    /// Target allocatable, in milli-cores and bytes.
    pub(super) expected: PerResource<Option<u64>>,
}

/// The leader's remedy for a Node.
#[derive(Debug)]
pub enum Remedy {
    /// Sends a PATCH without content, so that admission decides again.
    TriggerAdmission(Fault),
    /// Writes a hint that lowers it.
    Nudge {
        nudge: Nudge,
        /// True if its primary should have written it, or if there is no primary.
        is_overdue: bool,
    },
}

impl SweepDirection {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Repair => "repair",
            Self::Rise => "rise",
        }
    }
}

impl Remedy {
    pub(super) const fn direction(&self) -> SweepDirection {
        match self {
            Self::TriggerAdmission(fault) => fault.direction,
            Self::Nudge { .. } => SweepDirection::Lower,
        }
    }
}

/// Remedy of the sweep for a Node that no other writer fixes; `None` if it has no fault.
pub fn find(cluster: &Cluster, node: &Node) -> Option<Remedy> {
    let (decision, hint) = cluster.preview(node, cluster.now());
    let fault = fault_of(cluster, node, &decision, hint.as_ref())?;
    Some(remedy_of(cluster, node, fault, &decision, hint.as_ref()))
}

/// The nudge that lowers a Node, where that is due.
pub(super) fn lowering_of(
    cluster: &Cluster,
    node: &Node,
    decision: &Decision,
    hint: Option<&EffectiveHint>,
) -> Option<Nudge> {
    let nudge = nudge::due_of(cluster, node, decision, hint).nudge;
    nudge.filter(|nudge| nudge.direction == nudge::Direction::Lower)
}

/// The remedy for a fault. The last report of an ended stream is only in the tables of replicas that received it, and any
/// replica may decide a touch. So a lowering by such a report is sent with its hint.
pub(super) fn remedy_of(
    cluster: &Cluster,
    node: &Node,
    fault: Fault,
    decision: &Decision,
    hint: Option<&EffectiveHint>,
) -> Remedy {
    let is_reported = hint.is_some_and(|found| found.origin == Origin::Stream);
    let lowers = fault.direction == SweepDirection::Lower && is_reported;
    match lowers
        .then(|| lowering_of(cluster, node, decision, hint))
        .flatten()
    {
        Some(nudge) => Remedy::Nudge {
            nudge,
            is_overdue: false,
        },
        None => Remedy::TriggerAdmission(fault),
    }
}

/// The fault of a Node after this decision, if any.
pub(super) fn fault_of(
    cluster: &Cluster,
    node: &Node,
    decision: &Decision,
    hint: Option<&EffectiveHint>,
) -> Option<Fault> {
    // Traces of ours on a node that is no longer ours to change.
    let is_left_over = node.state.annotations.marker.is_some()
        && decision
            .annotations
            .iter()
            .any(|(key, value)| *key == names::MARKER && value.is_none());
    let is_nudged = hint.is_some_and(|found| found.freshness == Freshness::Fresh) && !is_left_over;
    let is_somebody_elses = node.state.annotations.marker.is_none();
    if (cluster.amplifies() && is_nudged) || (!cluster.amplifies() && is_somebody_elses) {
        return None;
    }
    let stored = |resource| {
        let stored = node.state.allocatable.get(resource).as_ref()?;
        amount(resource, stored)
    };
    let written = capacity::last_written(&node.state.annotations, &node.uid);
    let expected = decision.outcomes.map(|_, outcome| outcome.result);
    let towards = |resource: Resource| {
        decision.allocatable.get(resource).as_ref()?;
        let expected = *expected.get(resource);
        Some(if expected < stored(resource) {
            SweepDirection::Lower
        } else if expected <= *written.get(resource) {
            SweepDirection::Repair
        } else {
            SweepDirection::Rise
        })
    };
    let directions = Resource::ALL
        .into_iter()
        .filter_map(towards)
        .chain(is_left_over.then_some(SweepDirection::Lower));
    // One write moves both: as urgent as the more urgent, but as slow as the one that rises.
    let directions: Vec<SweepDirection> = directions.collect();
    let direction = if directions.contains(&SweepDirection::Lower) {
        SweepDirection::Lower
    } else {
        directions.into_iter().max()?
    };
    Some(Fault { direction, expected })
}
