//! Rate limits of nudges and sweeps, for all nodes together.

use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Rate limits of writes that make admission decide nodes again, for all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Nudges that lower or record a brake, a second.
    pub lower: u32,
    /// Nodes that may rise, in percent of all a second; at least one.
    pub rise_percent: u32,
    /// Nodes that the sweep may lower or repair, a second.
    pub sweep: u32,
}

impl Rates {
    /// Values of the flags' defaults.
    pub const DEFAULT: Self = Self {
        lower: 500,
        rise_percent: 1,
        sweep: 50,
    };

    /// The time between two nudges that lower.
    pub(super) fn lower_every(&self) -> Duration {
        SECOND / self.lower.max(1)
    }

    /// Time between two rises in a cluster of this many nodes.
    pub(super) fn rise_every(&self, nodes: usize) -> Duration {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        SECOND / (nodes.saturating_mul(self.rise_percent) / 100).max(1)
    }
}
