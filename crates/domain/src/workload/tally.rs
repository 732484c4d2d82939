//! [`Tally`]: the reports of all nodes about one workload and resource within a period.

use super::{HourlyUse, LARGEST_PPM, SlotUse};

/// Nodes from which on the extremes do not count: one of them may lie.
const NODES_WITH_OUTLIERS: u32 = 3;

/// Mean use of a workload's pods on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct NodeMean {
    ppm: u32,
    pods: u32,
}

/// Sums and extremes by node. A node counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Sum over pods, in ppm of their requests.
    sum: u64,
    pods: u32,
    nodes: u32,
    /// The two smallest means, smallest first.
    low: [NodeMean; 2],
    /// The two largest means, largest first.
    high: [NodeMean; 2],
    /// The two nodes' largest use of one pod, largest first.
    peak: [u32; 2],
}

/// Use of the pods of one workload on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OnNode {
    sum: u64,
    pods: u32,
    peak: u32,
    /// Largest request among them.
    pub(super) request: u64,
}

impl OnNode {
    /// Adds a pod; one without a request has no use relative to it.
    pub(super) fn add(&mut self, used: u64, request: u64) {
        if request == 0 {
            return;
        }
        let ppm = u128::from(used) * 1_000_000 / u128::from(request);
        let ppm = u32::try_from(ppm).unwrap_or(u32::MAX).min(LARGEST_PPM);
        self.sum = self.sum.saturating_add(ppm.into());
        self.pods = self.pods.saturating_add(1);
        self.peak = self.peak.max(ppm);
        self.request = self.request.max(request);
    }

    pub(super) const fn pods(&self) -> u32 {
        self.pods
    }
}

impl Tally {
    /// Adds the pods of one node.
    pub(super) fn add(&mut self, node: &OnNode) {
        let Some(mean) = node.sum.checked_div(node.pods.into()) else {
            return;
        };
        let mean = NodeMean {
            ppm: u32::try_from(mean).unwrap_or(u32::MAX),
            pods: node.pods,
        };
        let [lowest, second] = &mut self.low;
        if self.nodes == 0 || mean.ppm < lowest.ppm {
            (*lowest, *second) = (mean, *lowest);
        } else if self.nodes == 1 || mean.ppm < second.ppm {
            *second = mean;
        }
        let [highest, second] = &mut self.high;
        if self.nodes == 0 || mean.ppm > highest.ppm {
            (*highest, *second) = (mean, *highest);
        } else if self.nodes == 1 || mean.ppm > second.ppm {
            *second = mean;
        }
        let [highest, second] = &mut self.peak;
        if node.peak > *highest {
            (*highest, *second) = (node.peak, *highest);
        } else {
            *second = node.peak.max(*second);
        }
        self.sum = self.sum.saturating_add(node.sum);
        self.pods = self.pods.saturating_add(node.pods);
        self.nodes = self.nodes.saturating_add(1);
    }

    pub(super) const fn nodes(&self) -> u32 {
        self.nodes
    }

    pub(super) const fn pods(&self) -> u32 {
        self.pods
    }

    /// M and D of the period. One node's mean counts as it is; of two nodes the larger one counts. Of three or more the
    /// largest and the smallest mean are replaced by their neighbours, and the largest pod is that of the second-largest
    /// node, so that one node cannot move the result beyond the others.
    pub(super) fn used(&self) -> Option<SlotUse> {
        let [highest, second] = self.high;
        let mean = match self.nodes {
            0 => return None,
            1 | 2 => u64::from(highest.ppm),
            NODES_WITH_OUTLIERS.. => {
                let [lowest, second_lowest] = self.low;
                let above = u64::from(highest.pods) * u64::from(highest.ppm - second.ppm);
                let below = u64::from(lowest.pods) * u64::from(second_lowest.ppm - lowest.ppm);
                // The means of nodes were rounded down.
                (self.sum + below)
                    .saturating_sub(above)
                    .div_ceil(self.pods.max(1).into())
            }
        };
        let mean_ppm = u32::try_from(mean).unwrap_or(u32::MAX).min(LARGEST_PPM);
        let [largest, second] = self.peak;
        let peak = if self.nodes >= NODES_WITH_OUTLIERS {
            second
        } else {
            largest
        };
        Some(SlotUse {
            mean_ppm,
            excess_ppm: peak.saturating_sub(mean_ppm),
        })
    }

    /// Raises a slot of `hourly` to the period's use.
    pub(super) fn raise(&self, hourly: &mut HourlyUse, slot: usize) {
        if let Some(used) = self.used() {
            hourly.raise(slot, used);
        }
    }
}
