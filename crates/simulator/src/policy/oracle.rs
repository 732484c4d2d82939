//! The peak oracle: it knows what the pods now on the node will use over the next day.
//!
//! Bashir et al., EuroSys 2021: overcommitting is safe if and only if the prediction is at least this. A new pod still counts
//! with its request when it asks for a place, and with what it will use from then on. No policy can know as much, so that what
//! this one hands out at no more risk is the most there is to gain.

use super::{Kind, Policy, Settings};
use crate::node::Node;

pub(super) static KIND: Kind = Kind {
    name: super::ORACLE,
    about: "knows the peak of the present pods over the next 24 h (EuroSys 2021): the bound",
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
