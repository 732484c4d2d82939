//! Policies with a constant: raw Kubernetes, a static ratio, and Borg's default.
//!
//! Koordinator amplifies by a static ratio that an administrator sets
//! (`node.koordinator.sh/resource-amplification-ratio`). Borg's default assumes that all tasks together never use
//! more than 0.9 of their limits: Bashir et al., "Take it to the Limit", EuroSys 2021.

use super::{Kind, Policy, Settings};
use crate::node::Node;

pub(super) static RAW: Kind = Kind {
    name: super::RAW,
    about: "Kubernetes without amplification",
    build: |settings| ratio(settings, 100),
};
pub(super) static STATIC_125: Kind = Kind {
    name: "static-1.25",
    about: "a static ratio set by an administrator, as applied by Koordinator",
    build: |settings| ratio(settings, 125),
};
pub(super) static STATIC_150: Kind = Kind {
    name: "static-1.50",
    about: "a static ratio set by an administrator, as applied by Koordinator",
    build: |settings| ratio(settings, 150),
};
pub(super) static BORG_DEFAULT: Kind = Kind {
    name: "borg-default",
    about: "0.9 x sum of limits (EuroSys 2021)",
    build: |settings| Box::new(Share { settings: *settings }),
};

#[derive(Debug)]
struct Ratio {
    cents: u64,
    raw: u64,
}

fn ratio(settings: &Settings, cents: u64) -> Box<dyn Policy> {
    Box::new(Ratio {
        cents,
        raw: settings.machine.raw,
    })
}

impl Policy for Ratio {
    fn allocatable(&mut self, _node: &Node) -> u64 {
        self.raw * self.cents / 100
    }

    fn predicted_peak(&mut self, node: &Node) -> Option<u64> {
        Some((node.bound() * 100).div_ceil(self.cents) + node.machine.system)
    }
}

/// A share of all limits. A pod's limit is its request here, as in the published simulator.
#[derive(Debug)]
struct Share {
    settings: Settings,
}

impl Policy for Share {
    fn allocatable(&mut self, node: &Node) -> u64 {
        let peak = (node.bound() * 9).div_ceil(10) + node.machine.system;
        self.settings.at_least(self.settings.beside(node, peak))
    }

    fn predicted_peak(&mut self, node: &Node) -> Option<u64> {
        Some((node.bound() * 9).div_ceil(10) + node.machine.system)
    }
}
