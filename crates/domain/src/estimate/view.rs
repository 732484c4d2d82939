//! [`View`]: the webhook's view of a node, with the requests of its pods.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{policy::Bounds, resource::PerResource, workload::Workload};

/// One pod in the server's view. Its workload is not serialized, because the layout of a saved pod is older: see
/// [`Snapshot::lineages`](super::Snapshot::lineages).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PodRequest {
    /// r: request as the scheduler counts it.
    pub requests: PerResource<u64>,
    /// True once the pod has a deletion timestamp.
    pub is_deleting: bool,
    /// True for the Kubernetes QoS class Guaranteed.
    pub is_guaranteed: bool,
    /// True if the agent has found exclusive CPUs of the pod. No part of its requests is ever free for others.
    pub has_own_cpus: bool,
    /// Its controller and version; `None` for a bare pod, and from older webhooks.
    #[serde(skip)]
    pub workload: Option<Workload>,
}

/// The webhook's view of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Generation of the pod store behind the view.
    pub generation: u64,
    /// C: physical capacity of this machine.
    pub capacity: PerResource<u64>,
    /// A: raw allocatable, the kubelet's own value.
    pub raw: PerResource<u64>,
    /// Pods that are bound to the node and have not ended, by UID.
    pub pods: BTreeMap<String, PodRequest>,
    /// Resources that the kubelet has allocated for admitted pods; brakes do not shed below them.
    pub admitted: PerResource<u64>,
    /// Bounds of the ratio, from the policy.
    pub bounds: PerResource<Bounds>,
    /// theta: target share of use, in ppm.
    pub target_ppm: PerResource<u32>,
}
