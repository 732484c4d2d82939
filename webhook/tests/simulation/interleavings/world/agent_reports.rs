//! Reports of a simulated agent about its machine, true or false.

use headroom_domain::{
    estimate::Profile,
    hint::{AgentMode, NodeHint, PodTrust, ResourceHint},
    ratio::Cents,
    resource::{PerResource, Resource},
};

use super::{EXCLUSIVE, HINTED, LIE, LIES, ModelWorld, NAME, OTHER_MACHINE, pick};
use crate::interleavings::{Quiet, node::uid_of};

/// Content of an agent's report.
#[derive(Debug, Clone, Copy)]
pub(in crate::interleavings) struct Says {
    pub(super) cents: u32,
    pub(super) exclusive: u64,
    pub(super) is_lie: bool,
}

impl Says {
    /// Report that describes the real machine.
    pub(in crate::interleavings) fn the_truth(cents: usize, exclusive: usize) -> Self {
        Self {
            cents: pick(&HINTED, cents),
            exclusive: pick(&EXCLUSIVE, exclusive),
            is_lie: false,
        }
    }

    /// Report at the end of a run.
    pub(super) fn when(quiet: Quiet) -> Self {
        Self {
            is_lie: quiet.are_lies,
            ..Self::the_truth(quiet.cents, quiet.exclusive)
        }
    }
}

/// Ratio for a resource in a report of `cents`.
pub(super) fn hint_of(resource: Resource, cents: u32) -> u32 {
    match resource {
        Resource::Cpu => cents,
        Resource::Memory => {
            HINTED[(HINTED.iter().position(|is| *is == cents).expect("a hint") + 1) % HINTED.len()]
        }
    }
}

/// Trust in a pod with exclusive CPUs, as reported.
fn trust(pod: &str, exclusive: u64) -> PodTrust {
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
        frame_use: None,
    }
}

impl ModelWorld {
    pub(super) fn report(&mut self, says: Says, only: Option<usize>, is_of_old_life: bool) {
        self.seq += 1;
        let exclusive = self.exclusive(says);
        let uid = if is_of_old_life {
            format!("u{}", self.lives - 1)
        } else {
            for resource in Resource::ALL {
                self.oracle.hinted(hint_of(resource, says.cents));
            }
            self.oracle.apart(exclusive);
            uid_of(self.stored()).to_owned()
        };
        for replica in 0..2 {
            if only.is_none_or(|only| only == replica) {
                self.replicas[replica].report(NodeHint {
                    pods_generation: self.version,
                    trust: self
                        .pods
                        .guaranteed()
                        .map(|pod| trust(pod, exclusive))
                        .into_iter()
                        .collect(),
                    ..hint(&uid, self.seq, says)
                });
            }
        }
    }

    /// Exclusive CPUs of a pod as reported, if a pod that may have them runs.
    pub(super) fn exclusive(&self, says: Says) -> u64 {
        self.pods.guaranteed().map_or(0, |_| says.exclusive)
    }

    /// The agent speaks of another machine, in one report after the other.
    pub(super) fn lie(&mut self, cents: u32, only: Option<usize>) {
        let says = Says {
            cents,
            exclusive: 0,
            is_lie: true,
        };
        for _ in 0..LIES {
            self.report(says, only, false);
            self.wait(LIE);
        }
    }
}
