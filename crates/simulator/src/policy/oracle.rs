//! The peak oracle: a policy that knows the use of a node's present pods over the next day.
//!
//! Bashir et al., EuroSys 2021: overcommitting is safe if and only if the prediction is at least this. A new pod
//! counts with its request until it is bound, and with its future use from then on. No policy can know as much, so
//! the oracle's gain is the highest possible at the same risk.

use super::{Kind, Policy, Settings};
use crate::node::Node;

pub(super) static KIND: Kind = Kind {
    name: super::ORACLE,
    about: "knows the peak of the present pods over the next 24 h (EuroSys 2021): the upper bound",
    build: |settings| Box::new(Oracle { settings: *settings }),
};

#[derive(Debug)]
struct Oracle {
    settings: Settings,
}

impl Policy for Oracle {
    fn allocatable(&mut self, node: &Node) -> u64 {
        let kept =
            self.settings.machine.capacity * u64::from(1_000_000 - self.settings.oracle_ppm) / 1_000_000;
        let wanted = self.settings.beside(node, node.coming_peak() + kept);
        self.settings.bounded(wanted)
    }

    fn predicted_peak(&mut self, node: &Node) -> Option<u64> {
        Some(node.coming_peak())
    }
}
