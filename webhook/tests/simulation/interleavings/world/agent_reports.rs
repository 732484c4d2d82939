//! Reports of a simulated agent about its machine, true or false.

use headroom_domain::{
    estimate::Profile,
    hint::{AgentMode, NodeHint, PodTrust, ResourceHint},
    ratio::Cents,
    resource::{PerResource, Resource},
};

use super::{EXCLUSIVE, HINTED, NAME, OTHER_MACHINE, pick};
use crate::interleavings::Quiet;

/// What an agent says.
#[derive(Debug, Clone, Copy)]
pub(in crate::interleavings) struct Says {
    pub(super) cents: u32,
    /// In milli-cores.
    pub(super) exclusive: u64,
    pub(super) is_lie: bool,
}

impl Says {
    /// What an agent says of its machine.
    pub(in crate::interleavings) fn the_truth(cents: usize, exclusive: usize) -> Self {
        Self {
            cents: pick(&HINTED, cents),
            exclusive: pick(&EXCLUSIVE, exclusive),
            is_lie: false,
        }
    }

    /// What it says when all is quiet.
    pub(super) fn when(quiet: Quiet) -> Self {
        Self {
            is_lie: quiet.are_lies,
            ..Self::the_truth(quiet.cents, quiet.exclusive)
        }
    }
}

/// What a report of `cents` says of a resource.
pub(super) fn hint_of(resource: Resource, cents: u32) -> u32 {
    match resource {
        Resource::Cpu => cents,
        Resource::Memory => {
            HINTED[(HINTED.iter().position(|is| *is == cents).expect("a hint") + 1) % HINTED.len()]
        }
    }
}

/// What an agent says of a pod that holds CPUs for itself.
pub(super) fn trust(pod: &str, exclusive: u64) -> PodTrust {
    PodTrust {
        uid: pod.to_owned(),
        cpu_ppm: 0,
        memory_ppm: 0,
        exclusive_cpus_milli: exclusive,
    }
}

pub(in crate::interleavings) fn hint(uid: &str, seq: u64, says: Says) -> NodeHint {
    NodeHint {
        node: NAME.to_owned(),
        node_uid: uid.to_owned(),
        boot_id: "b1".to_owned(),
        seq,
        is_primary: true,
        pods_generation: 1,
        sight: AgentMode::Full,
        // Its frame, after which a ratio may rise another step, is a second.
        timing: Profile::Demo,
        is_draining: false,
        resources: PerResource::from_fn(|resource| {
            let cents = Cents(hint_of(resource, says.cents));
            let is_lie = says.is_lie && resource == Resource::Cpu;
            ResourceHint {
                capacity: if is_lie { OTHER_MACHINE } else { 0 },
                published: cents,
                target: cents,
                ..ResourceHint::default()
            }
        }),
        trust: Vec::new(),
        steal_ppm: 0,
        signals: Vec::new(),
        past: None,
    }
}
