//! What mode `auto` would come to on a node that another mode keeps as it is.

use std::time::Duration;

use headroom_domain::{
    capacity,
    policy::{InForce, Mode},
    resource::PerResource,
};

use super::Cluster;
use crate::{hints::directive, store::node::Node};

/// Raw allocatable of a node, and that at which `auto` would come to rest, in milli-cores and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WouldBe {
    /// The kubelet's own.
    pub raw: PerResource<Option<u64>>,
    /// With the ratio that the agent publishes.
    pub allocatable: PerResource<Option<u64>>,
}

impl Cluster {
    /// What `auto` would come to on a node that another mode keeps as it is; `None` for nodes in `guard` and `auto`, and where
    /// no report counts in full.
    pub fn would_be(&self, node: &Node, now: Duration) -> Option<WouldBe> {
        let InForce { policy, .. } = self.policy(node)?;
        if !matches!(policy.mode, Mode::Off | Mode::Static) {
            return None;
        }
        let found = self.hint_at(&node.asked(), now)?;
        let raw = directive::raw(node);
        let allocatable = capacity::projected_allocatable(&found, &policy, raw)?;
        Some(WouldBe { raw, allocatable })
    }
}
