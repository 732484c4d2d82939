//! Corrects a node's hint by later facts: departed pods, memory pressure, another capacity, quarantine.

use headroom_domain::{
    estimate::after_departures,
    hint::{Contradiction, EffectiveHint, HintQuery, NoRaiseReason, NodeHint, Origin, capacity_differs},
    policy::InForce,
    ratio::Cents,
    resource::PerResource,
};
use headroom_proto::v1alpha1::Qos;

use super::Cluster;
use crate::store::{node::Node, pods::NodePods};

/// Corrects `found` for the current node: without the CPUs of pods that have left, lowered by their share, held if
/// the agent did not know all of this, braked while the kubelet reports memory pressure, and at most 1.00 in
/// quarantine. Capacity and pressure are those of the write under decision.
pub(super) fn of_now(
    cluster: &Cluster,
    asked: &HintQuery<'_>,
    hint: Option<&NodeHint>,
    mut found: EffectiveHint,
) -> EffectiveHint {
    let node = asked.node;
    if asked.machine.has_memory_pressure {
        found.note = found.note.under_memory_pressure();
    }
    match (found.origin, hint) {
        // The writer of the nudge has already applied this.
        (Origin::Nudge | Origin::Marker, _) | (Origin::Stream, None) => {}
        (Origin::Annotation, _) => {
            if cluster.pods.has_synced() {
                found.note.excl = found.note.excl.min(cluster.pods.with_node(node, guaranteed));
            }
        }
        (Origin::Stream, Some(hint)) => {
            found.isolated = PerResource::from_fn(|resource| hint.resources.get(resource).isolated);
            found.note.excl = exclusive(cluster, hint);
            if hint.pods_generation < cluster.pods.changed_at(node) {
                found.caution = Some(NoRaiseReason::OlderPods);
                let stored = cluster.nodes.get(node);
                if let Some(ratios) = stored.and_then(|node| departed(cluster, &node, hint)) {
                    found.note = found.note.with_ratios(&ratios);
                }
            } else if is_of_another_machine(&asked.machine.capacity, hint) {
                found.caution = Some(NoRaiseReason::OtherCapacity);
            }
        }
    }
    // The replica with the agent's stream evaluates the reports and records the result; all other replicas use the
    // record.
    if found.origin == Origin::Stream {
        found.note = found.note.in_quarantine(contradicted(cluster, asked));
    }
    if let Some(contradiction) = found.note.contradiction() {
        found.caution = Some(NoRaiseReason::Quarantined(contradiction));
    }
    found
}

/// Contradiction in a node's reports: as found by this replica or, while this replica cannot decide it, as recorded.
fn contradicted(cluster: &Cluster, asked: &HintQuery<'_>) -> Option<Contradiction> {
    cluster.quarantine(asked.node).or_else(|| {
        let contradiction = asked.note()?.contradiction()?;
        cluster
            .upholds(asked.node, contradiction)
            .then_some(contradiction)
    })
}

/// CPUs that current pods hold exclusively, at most their requests.
fn exclusive(cluster: &Cluster, hint: &NodeHint) -> u64 {
    let is_known = cluster.pods.has_synced();
    cluster.pods.with_node(&hint.node, |bound| {
        let held = hint.trust.iter().map(|trust| {
            let held = trust.exclusive_cpus_milli;
            let asked = bound.by_cgroup(&trust.uid);
            let asked = asked.filter(|pod| pod.qos == Qos::Guaranteed);
            let most = asked.map_or(0, |pod| pod.requests.cpu);
            if is_known { held.min(most) } else { held }
        });
        held.fold(0, u64::saturating_add)
    })
}

/// CPU requests of the pods that could hold CPUs for themselves alone.
fn guaranteed(bound: &NodePods) -> u64 {
    let pods = bound.pods.values().filter(|pod| pod.qos == Qos::Guaranteed);
    pods.fold(0, |sum, pod| sum.saturating_add(pod.requests.cpu))
}

/// Ratios without the trust in pods that are leaving or have left; `None` if they cannot be computed.
fn departed(cluster: &Cluster, node: &Node, hint: &NodeHint) -> Option<PerResource<Cents>> {
    let InForce { policy, .. } = cluster.policy(node)?;
    let PerResource { cpu, memory } = node.raw_allocatable();
    let raw = PerResource {
        cpu: cpu?,
        memory: memory?,
    };
    Some(cluster.pods.with_node(&node.name, |bound| {
        after_departures(hint, &raw, &policy, |uid| {
            let pod = bound.by_cgroup(uid).filter(|pod| !pod.is_deleting)?;
            Some(pod.requests)
        })
    }))
}

/// True if the hint's machine has other CPUs than the Node, or more memory. Less memory can be huge pages, which
/// agents leave out; an agent that sees too little of it is blind by itself.
fn is_of_another_machine(capacity: &PerResource<Option<u64>>, hint: &NodeHint) -> bool {
    let PerResource { cpu, memory } = &hint.resources;
    let has_other_cpus = capacity
        .cpu
        .is_some_and(|of_node| cpu.capacity > 0 && capacity_differs(of_node, of_node.abs_diff(cpu.capacity)));
    let has_more_memory = capacity
        .memory
        .is_some_and(|of_node| capacity_differs(of_node, memory.capacity.saturating_sub(of_node)));
    has_other_cpus || has_more_memory
}
