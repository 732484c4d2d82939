//! [`NodeEvidence`]: the use of a node's pods in one frame, as one agent reports it, and its plausibility.

use super::Workload;
use crate::resource::PerResource;

/// Use of one pod in one frame. The replica takes everything but the use from the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodEvidence {
    /// Hash of the pod's namespace, whose share of the table it counts against.
    pub namespace: u64,
    /// Controller and version.
    pub workload: Workload,
    /// r: request as the scheduler counts it.
    pub requests: PerResource<u64>,
    /// High estimate of its use.
    pub used: PerResource<u64>,
}

/// Use of a node's pods in one frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeEvidence {
    /// Hash of the node's UID.
    pub node: u64,
    /// Pods with a controller.
    pub pods: Vec<PodEvidence>,
    /// Resources whose evidence counts: see [`is_plausible`].
    pub counts: PerResource<bool>,
}

/// Returns true if the use of all pods of a node, in milli-cores or bytes, is at least 70 % of the node's use beyond a
/// tenth of its capacity. Otherwise the agent did not measure its pods, or understates them.
pub fn is_plausible(sum: u64, node_use: u64, capacity: u64) -> bool {
    let expected = node_use.saturating_sub(capacity / 10);
    u128::from(sum) * 10 >= u128::from(expected) * 7
}
