//! [`CpuSource`]: the source of CPU counters, with the status of each kernel hook, and the reason if
//! eBPF is not used.

use crate::{
    kernel::{
        probe::{Health, Hook, HookVerdict},
        supervisor::{ProbeState, Shed},
    },
    sample::Origin,
};

/// Shown for hooks that are detached on a calm node, and for the signals that they feed.
pub const CALM: &str = "detached while no CPU is nearly full, since run-queue latency is not needed then";

/// Source of CPU counters, and the reason if it is not eBPF.
#[derive(Clone, Debug)]
pub struct CpuSource {
    pub origin: Origin,
    /// Verdict on each hook; empty if the kernel programs were not requested.
    pub verdicts: Vec<HookVerdict>,
    /// Reason why the kernel programs are not the source, with a fix.
    pub obstacle: Option<String>,
    /// Sampling of waits that is given up because tasks switch too often.
    pub shed: Shed,
    /// True while the wake-up hooks are detached because no CPU is nearly full.
    pub is_calm: bool,
}

impl CpuSource {
    /// Records the state of the kernel programs.
    pub(crate) fn observe(&mut self, probe_state: &ProbeState) {
        match probe_state {
            ProbeState::Counting {
                shed,
                is_calm,
                reattached: _,
                verdicts,
            } => {
                self.shed = *shed;
                self.is_calm = *is_calm;
                if let Some(verdicts) = verdicts {
                    self.verdicts = verdicts.to_vec();
                }
            }
            ProbeState::Lost(reason) => {
                for verdict in &mut self.verdicts {
                    if verdict.health == Health::Ok {
                        *verdict = verdict.lost(reason);
                    }
                }
                self.origin = Origin::Procfs;
                self.obstacle = Some(reason.as_ref().to_owned());
                self.shed = Shed::Nothing;
                self.is_calm = false;
            }
        }
    }

    /// Returns true if one of these hooks is detached because no CPU is nearly full.
    pub fn rests(&self, hooks: &[Hook]) -> bool {
        self.is_calm && self.can_see_waits() && hooks.iter().any(|hook| Hook::WAKE_UPS.contains(hook))
    }

    /// Returns true if the start of every kind of wait is measured, now or as soon as a CPU is nearly full.
    pub(crate) fn can_see_waits(&self) -> bool {
        let is_attached = |hook| {
            let verdict = self.verdicts.iter().find(|verdict| verdict.hook == hook);
            verdict.is_none_or(|verdict| verdict.health == Health::Ok)
        };
        self.origin == Origin::Ebpf
            && self.shed < Shed::WakeUps
            && Hook::WAKE_UPS.into_iter().all(is_attached)
    }
}
