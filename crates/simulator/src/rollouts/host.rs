//! A node of the simulated fleet, with its policy and its backlog.

use crate::{
    closed::Backlog,
    figures::Figures,
    node::{Node, Pod},
    policy::Policy,
};

/// A node that a scheduler fills.
pub(super) struct Host<'a> {
    pub(super) node: Node,
    pub(super) policy: Box<dyn Policy>,
    pub(super) backlog: Backlog<'a>,
    /// Frame in which the backlog's first pod became the first.
    pub(super) waits_since: usize,
    /// Allocatable after the last change.
    pub(super) allocatable: u64,
    pub(super) figures: Figures,
}

impl Host<'_> {
    /// Evaluates the policy after a change.
    pub(super) fn refresh(&mut self) {
        self.allocatable = self.policy.allocatable(&self.node);
    }

    pub(super) fn free(&self) -> u64 {
        self.allocatable.saturating_sub(self.node.bound())
    }

    /// Binds a pod that fits.
    pub(super) fn bind(&mut self, pod: Pod) {
        self.node.bind(pod);
        self.refresh();
    }

    /// Binds the backlog's first pod if it fits.
    pub(super) fn bind_first(&mut self, frame: usize) -> bool {
        if self.backlog.request > self.free() {
            return false;
        }
        let pod = self.backlog.next_pod(frame);
        self.waits_since = frame;
        self.bind(pod);
        true
    }

    /// Records the frame and ends it.
    pub(super) fn end_frame(&mut self) {
        self.figures.record(&self.node, self.allocatable, None);
        self.policy.end_frame(&self.node);
    }
}
