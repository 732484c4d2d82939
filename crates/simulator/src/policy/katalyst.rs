//! Katalyst's realtime overcommit: ratio = ((A × target - U) / load + R) / A, from the node's present use U.
//!
//! load = clamp(U / R, estimate, 1); target 0.6 for CPU and 0.8 for memory, estimated load of a pod 0.4 and 0.8
//! (katalyst-core, `pkg/agent/sysadvisor/plugin/overcommitmentaware/realtime`). The ratio is limited by an
//! administrator's annotation: 1.5 here. Katalyst computes it every 10 s; here a frame is the shortest time, so U is
//! the last frame's mean.

use headroom_domain::resource::Resource;

use super::{Kind, Policy, Settings};
use crate::{
    convert::{real, whole},
    node::Node,
};

/// Highest reported ratio, in percent of raw.
const CAP: i128 = 150;

pub(super) static KIND: Kind = Kind {
    name: "katalyst-realtime",
    about: "((A x target - U) / load + R) / A from current use (katalyst-core), at most 1.50",
    build: |settings| {
        let (target, estimate) = match settings.resource {
            Resource::Cpu => (0.6, 0.4),
            Resource::Memory => (0.8, 0.8),
        };
        Box::new(Realtime {
            settings: *settings,
            target,
            estimate,
            used: None,
        })
    },
};

#[derive(Debug)]
struct Realtime {
    settings: Settings,
    target: f64,
    estimate: f64,
    /// U, once a frame has run.
    used: Option<u64>,
}

impl Policy for Realtime {
    fn allocatable(&mut self, node: &Node) -> u64 {
        let raw = self.settings.machine.raw;
        let wanted = match self.used {
            Some(used) if node.bound() > 0 => {
                let load = (real(used) / real(node.bound())).clamp(self.estimate, 1.0);
                let room = (real(raw) * self.target - real(used)) / load;
                i128::from(whole(room + real(node.bound())))
            }
            _ => i128::from(raw),
        };
        self.settings.bounded(wanted.min(i128::from(raw) * CAP / 100))
    }

    fn predicted_peak(&mut self, _node: &Node) -> Option<u64> {
        None
    }

    fn end_frame(&mut self, node: &Node) {
        self.used = Some(node.used(node.now));
    }
}
