//! Cluster-wide rate limits of the writes that make admission decide nodes again: nudges and sweeps.

use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Rate limits of writes that make admission decide nodes again, for all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Maximum nudges per second that lower allocatable or record a brake.
    pub lower: u32,
    /// Percentage of all nodes whose allocatable may be raised per second; at least one node.
    pub rise_percent: u32,
    /// Maximum nodes per second that the sweep may lower or repair.
    pub sweep: u32,
}

impl Rates {
    /// Values of the flags' defaults.
    pub const DEFAULT: Self = Self {
        lower: 500,
        rise_percent: 1,
        sweep: 50,
    };

    /// Minimum interval between two nudges that lower allocatable.
    pub(super) fn lower_every(&self) -> Duration {
        SECOND / self.lower.max(1)
    }

    /// Time between two rises in a cluster of this many nodes.
    pub(super) fn rise_every(&self, nodes: usize) -> Duration {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        SECOND / (nodes.saturating_mul(self.rise_percent) / 100).max(1)
    }
}
