//! Builds the directives for an agent: the policy in force, the pods of its node, capacity and raw allocatable.

use headroom_domain::{
    capacity::{amount, recorded_raw},
    estimate::Profile,
    policy::InForce,
    resource::{PerResource, Resource},
};
use headroom_proto::v1alpha1 as wire;

use crate::store::{cluster::Cluster, node::Node};

/// The policy in force for a node; `None` while it or the Node is not known.
pub fn policy(cluster: &Cluster, node: &str, profiles: &[Profile]) -> Option<wire::Policy> {
    let node = cluster.nodes.get(node)?;
    let InForce { policy, .. } = cluster.policy(&node)?;
    let quarantine = cluster.quarantine(&node.name);
    Some(wire::Policy {
        quarantine: quarantine.map_or_else(String::new, |found| found.about().to_owned()),
        ..wire::Policy::from_domain(&policy, profiles)
    })
}

/// The pods of a node, with its capacity and raw allocatable, and the generation of their last change; `None` while
/// something of that is not known.
pub fn pods(cluster: &Cluster, node: &str) -> Option<(wire::Pods, u64)> {
    let node = cluster.nodes.get(node)?;
    let (generation, bound) = cluster.pods.on(&node.name)?;
    let admitted = cluster.held_by(&node)?.map(|_, held| held.admitted);
    let message = wire::Pods {
        generation,
        node_uid: node.uid.clone(),
        capacity: Some(known(capacity(&node))?.into()),
        raw_allocatable: Some(known(raw(&node))?.into()),
        pods: bound
            .pods
            .iter()
            .map(|(uid, pod)| wire::PodRequest {
                uid: bound.cgroup(uid).to_owned(),
                cpu_milli: pod.requests.cpu,
                memory_bytes: pod.requests.memory,
                qos: pod.qos.into(),
                deleting: pod.is_deleting,
            })
            .collect(),
        memory_pressure: node.has_memory_pressure,
        admitted: Some(admitted.into()),
    };
    Some((message, bound.changed_at))
}

/// A node's capacity, as far as it says.
pub fn capacity(node: &Node) -> PerResource<Option<u64>> {
    let given = &node.state.capacity;
    PerResource::from_fn(|resource| amount(resource, given.get(resource).as_ref()?))
}

/// A node's own allocatable: what is recorded of it, else what it says now if that was never ours.
pub fn raw(node: &Node) -> PerResource<Option<u64>> {
    let recorded = recorded_raw(&node.state, &node.uid);
    let is_marked = node.state.annotations.marker.is_some();
    PerResource::from_fn(|resource: Resource| {
        recorded.get(resource).or_else(|| {
            let now = node
                .state
                .allocatable
                .get(resource)
                .as_ref()
                .filter(|_| !is_marked)?;
            amount(resource, now)
        })
    })
}

fn known(amounts: PerResource<Option<u64>>) -> Option<PerResource<u64>> {
    Some(PerResource {
        cpu: amounts.cpu?,
        memory: amounts.memory?,
    })
}
