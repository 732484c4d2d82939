//! Builds the directives for an agent: the policy in force, the pods of its node, capacity and raw allocatable.

use std::time::{Duration, SystemTime};

use headroom_domain::{estimate::Profile, policy::InForce, resource::PerResource};
use headroom_proto::v1alpha1 as wire;

use crate::store::{cluster::Cluster, workload_table::WorkloadTable};

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
        capacity: Some(known(node.capacity())?.into()),
        raw_allocatable: Some(known(node.raw_allocatable())?.into()),
        pods: bound
            .pods
            .iter()
            .map(|(uid, pod)| wire::PodRequest {
                uid: bound.cgroup(uid).to_owned(),
                cpu_milli: pod.requests.cpu,
                memory_bytes: pod.requests.memory,
                qos: pod.qos.into(),
                deleting: pod.is_deleting,
                controller: pod.owner.workload().map_or(0, |workload| workload.controller),
                version: pod.owner.workload().map_or(0, |workload| workload.version),
            })
            .collect(),
        memory_pressure: node.has_memory_pressure,
        admitted: Some(admitted.into()),
    };
    Some((message, bound.changed_at))
}

/// Profiles of the workloads of a node's pods; `None` while this replica sends none.
pub fn workloads(cluster: &Cluster, table: &WorkloadTable, node: &str) -> Option<wire::Workloads> {
    let directive = cluster
        .pods
        .with_node(node, |bound| table.directive(bound, since_1970()))?;
    Some(wire::Workloads::from(&directive))
}

/// Time since 1970.
pub fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

fn known(amounts: PerResource<Option<u64>>) -> Option<PerResource<u64>> {
    Some(PerResource {
        cpu: amounts.cpu?,
        memory: amounts.memory?,
    })
}
