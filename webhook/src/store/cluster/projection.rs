//! Projected allocatable under mode `auto` of a node in another mode.

use std::time::Duration;

use headroom_domain::{
    capacity,
    policy::{InForce, Mode},
    resource::PerResource,
};

use super::Cluster;
use crate::store::node::Node;

/// Raw allocatable of a node, and that at which `auto` would come to rest, in milli-cores and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectedAllocatable {
    pub raw: PerResource<Option<u64>>,
    /// With the ratio that the agent publishes.
    pub allocatable: PerResource<Option<u64>>,
}

impl Cluster {
    /// Projected allocatable of a node under mode `auto`; `None` for nodes in `guard` and `auto`, and if no report
    /// counts in full.
    pub fn projected_allocatable(&self, node: &Node, now: Duration) -> Option<ProjectedAllocatable> {
        let InForce { policy, .. } = self.policy(node)?;
        if !matches!(policy.mode, Mode::Off | Mode::Static) {
            return None;
        }
        let found = self.hint_at(&node.asked(), now)?;
        let raw = node.raw_allocatable();
        let allocatable = capacity::projected_allocatable(&found, &policy, raw)?;
        Some(ProjectedAllocatable { raw, allocatable })
    }
}
