//! The mode of the agent (FULL, FULL_SHED, PROC or BLIND), with one sentence for each case. The sentence states how
//! much the agent sees, the obstacle to more, and the remedy.

use headroom_domain::{
    estimate::{HIGHEST_PROC, MARGIN_PROC_PPM, Reason, View},
    hint::{AgentMode, CAPACITY_TOLERANCE, capacity_differs},
    resource::{PerResource, Resource},
};

use super::wait_coverage::WaitVisibility;
use crate::{
    kernel::{
        cpu_source::CpuSource,
        probe::Health,
        supervisor::{Limits, Shed},
    },
    sample::Origin,
};

/// Parts per million in a percent.
const PERCENT: u32 = 10_000;

/// Reason why the node cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlindReason {
    /// Capacity of machine and Node object differ.
    #[error(
        "the machine has {machine} of {resource} and its Node object {node}, more than \
         {CAPACITY_TOLERANCE} % apart: nothing is amplified until both agree; restart the kubelet if \
         CPUs or memory were added or removed"
    )]
    Capacity {
        resource: Resource,
        /// Capacity of the machine, in milli-cores or bytes.
        machine: u64,
        /// Capacity in the Node object.
        node: u64,
    },
    /// No directive has arrived for the node.
    #[error(
        "no directive from a hint server for this node yet: nothing is amplified; check the streams \
         in /status, and that the Node exists"
    )]
    NoDirective,
    /// No frame is in the history.
    #[error("nothing is amplified until the first frame has been measured; wait for its end")]
    NoFrame,
}

impl BlindReason {
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Capacity { .. } => Reason::CapacityMismatch,
            Self::NoDirective => Reason::NoDirective,
            Self::NoFrame => Reason::NoHistory,
        }
    }
}

/// Checks by capacity that the Node object describes this machine. `machine` includes huge pages, as Nodes do.
pub(super) fn compare(machine: PerResource<u64>, view: &View) -> Result<(), BlindReason> {
    for resource in Resource::ALL {
        let (machine, node) = (*machine.get(resource), *view.capacity.get(resource));
        if capacity_differs(node, machine.abs_diff(node)) {
            return Err(BlindReason::Capacity {
                resource,
                machine,
                node,
            });
        }
    }
    Ok(())
}

impl CpuSource {
    /// The mode and its sentence.
    pub fn mode(&self, blind_reason: Option<&BlindReason>) -> (AgentMode, String) {
        match (blind_reason, self.origin) {
            (Some(blind_reason), _) => (AgentMode::Blind, blind_reason.to_string()),
            (None, Origin::Ebpf) => match self.shed {
                Shed::Nothing => (AgentMode::Full, self.full()),
                Shed::To64 | Shed::To512 | Shed::WakeUps => (AgentMode::FullShed, self.shed()),
            },
            (None, Origin::Procfs) => (AgentMode::Proc, self.procfs()),
        }
    }

    /// Visibility of the start of waits.
    pub(super) fn wait_visibility(&self) -> WaitVisibility {
        match self.can_see_waits() {
            true if self.is_calm => WaitVisibility::Calm,
            true => WaitVisibility::All,
            false => WaitVisibility::Partial,
        }
    }

    fn full(&self) -> String {
        let missing = self.missing();
        if missing.is_empty() {
            return "kernel programs count every context switch; no signal is missing".to_owned();
        }
        format!("kernel programs count every context switch; missing: {missing}; see programs in /status")
    }

    fn shed(&self) -> String {
        let one_in = |shed: Shed| 1_u64 << shed.sampling_shift();
        let lost = match self.shed {
            Shed::Nothing | Shed::To64 | Shed::To512 => format!(
                "one task in {} is sampled for run-queue latency instead of one in {}",
                one_in(self.shed),
                one_in(Shed::Nothing)
            ),
            Shed::WakeUps => {
                "waits after wake-ups are not measured: the CPU brake uses CPU pressure instead, or \
                 without pressure counts all waits as long"
                    .to_owned()
            }
        };
        format!(
            "a CPU switches more than {} times a second, so {lost}; busy time stays exact, and \
             sampling returns to normal after the load; look for a task that sleeps and wakes in a \
             loop",
            Limits::hot_text()
        )
    }

    /// Is one of the hooks not attached?
    pub(super) fn is_missing_hooks(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.health != Health::Ok)
    }

    /// Hooks that are not attached, with the effect of each.
    fn missing(&self) -> String {
        let missing = self
            .verdicts
            .iter()
            .filter(|verdict| verdict.health != Health::Ok);
        let missing =
            missing.map(|verdict| format!("{} ({})", verdict.hook.tracepoint(), verdict.hook.loss()));
        missing.collect::<Vec<_>>().join(", ")
    }

    /// Sentence about the procfs mode: its cost, its cause and its fix.
    pub fn procfs(&self) -> String {
        let why = self.obstacle.as_deref().unwrap_or("no reason given");
        format!(
            "CPU use comes from /proc/stat: no peaks below a second, no run-queue latency, brakes by \
             pressure and mean use only, a margin of {} % and ratios up to {HIGHEST_PROC}; the \
             reason: {why}",
            MARGIN_PROC_PPM / PERCENT
        )
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::policy::Policy;

    use super::*;
    use crate::kernel::{
        probe::{Flavour, Hook, HookVerdict},
        supervisor::ProbeState,
    };

    fn view(cpu: u64, memory: u64) -> View {
        let policy = Policy::default();
        let capacity = PerResource { cpu, memory };
        View {
            generation: 1,
            capacity,
            raw: capacity,
            pods: std::collections::BTreeMap::new(),
            bounds: policy.bounds,
            target_ppm: policy.target_ppm,
            admitted: PerResource::default(),
        }
    }

    #[test]
    fn a_node_may_differ_from_its_machine_by_two_percent() {
        let machine = PerResource {
            cpu: 4000,
            memory: 102_000,
        };
        assert_eq!(compare(machine, &view(4000, 100_000)), Ok(()));
        let blind_reason = compare(machine, &view(4000, 99_999)).unwrap_err();
        assert_eq!(blind_reason.reason(), Reason::CapacityMismatch);
        assert!(
            blind_reason
                .to_string()
                .contains("102000 of memory and its Node object 99999"),
            "{blind_reason}"
        );
        assert!(compare(machine, &view(1000, 102_000)).is_err());
        assert!(
            compare(machine, &view(0, 0)).is_err(),
            "a Node without capacity matches no machine"
        );
    }

    #[test]
    fn the_sentence_states_the_loss_and_the_reason() {
        let cpu_source = CpuSource {
            origin: Origin::Procfs,
            verdicts: Vec::new(),
            obstacle: Some("--source procfs".to_owned()),
            shed: Shed::Nothing,
            is_calm: false,
        };
        let (mode, sentence) = cpu_source.mode(None);
        assert_eq!(mode, AgentMode::Proc);
        assert!(
            sentence.contains("no run-queue latency") && sentence.ends_with("the reason: --source procfs")
        );
        assert!(
            sentence.contains("a margin of 20 % and ratios up to 1.50"),
            "{sentence}"
        );
        assert_eq!(
            cpu_source.mode(Some(&BlindReason::NoDirective)).0,
            AgentMode::Blind
        );
    }

    #[test]
    fn the_sentence_of_shedding_has_rates() {
        let shedding = |shed| {
            let cpu_source = CpuSource {
                origin: Origin::Ebpf,
                verdicts: Vec::new(),
                obstacle: None,
                shed,
                is_calm: false,
            };
            cpu_source.mode(None)
        };
        for (shed, words) in [
            (
                Shed::To64,
                "more than 70,000 times a second, so one task in 64 is",
            ),
            (
                Shed::To512,
                "one task in 512 is sampled for run-queue latency instead of one in 8;",
            ),
            (Shed::WakeUps, "so waits after wake-ups are not measured"),
        ] {
            let (mode, sentence) = shedding(shed);
            assert_eq!(mode, AgentMode::FullShed);
            assert!(sentence.contains(words), "{sentence}");
        }
    }

    #[test]
    fn lost_programs_are_failed_with_a_reason() {
        let ok = |hook| HookVerdict {
            hook,
            health: Health::Ok,
            flavour: Some(Flavour::Typed),
            reason: None,
            verifier_log: None,
        };
        let mut cpu_source = CpuSource {
            origin: Origin::Ebpf,
            verdicts: vec![
                HookVerdict {
                    health: Health::Unsupported,
                    flavour: None,
                    reason: Some("not there".to_owned()),
                    ..ok(Hook::CpuhpExit)
                },
                ok(Hook::SchedWakeup),
                ok(Hook::SchedSwitch),
            ],
            obstacle: None,
            shed: Shed::Nothing,
            is_calm: false,
        };
        let said = |cpu_source: &CpuSource| -> Vec<_> {
            let verdicts = cpu_source.verdicts.iter();
            verdicts
                .map(|verdict| (verdict.health, verdict.flavour, verdict.reason.clone()))
                .collect()
        };
        let all = said(&cpu_source);
        let mut one_lost = cpu_source.verdicts.clone();
        one_lost[1] = one_lost[1].lost("refused");
        cpu_source.observe(&ProbeState::Counting {
            shed: Shed::Nothing,
            is_calm: false,
            reattached: 1,
            verdicts: Some(one_lost.into()),
        });
        assert_eq!(
            cpu_source.wait_visibility(),
            WaitVisibility::Partial,
            "the brake uses other inputs then"
        );
        let (mode, sentence) = cpu_source.mode(None);
        assert_eq!(mode, AgentMode::Full);
        assert!(sentence.contains("sched_wakeup (waits of tasks"), "{sentence}");

        cpu_source.observe(&ProbeState::Lost("no switch was counted".into()));
        let failed = |why: &str| (Health::Failed, None, Some(why.to_owned()));
        assert_eq!(
            said(&cpu_source),
            [all[0].clone(), failed("refused"), failed("no switch was counted")]
        );
    }

    #[test]
    fn a_missing_hook_is_named_with_its_loss() {
        let verdict = |hook, health| HookVerdict {
            hook,
            health,
            flavour: None,
            reason: None,
            verifier_log: None,
        };
        let mut cpu_source = CpuSource {
            origin: Origin::Ebpf,
            verdicts: vec![
                verdict(Hook::MarkVictim, Health::Unsupported),
                verdict(Hook::SchedWakeup, Health::Ok),
            ],
            obstacle: None,
            shed: Shed::Nothing,
            is_calm: false,
        };
        let (mode, sentence) = cpu_source.mode(None);
        assert_eq!(mode, AgentMode::Full);
        assert!(
            sentence.contains("mark_victim (victims of the OOM killer by pid"),
            "{sentence}"
        );
        assert_eq!(cpu_source.wait_visibility(), WaitVisibility::All);
        cpu_source
            .verdicts
            .push(verdict(Hook::SchedWakeupNew, Health::Failed));
        assert_eq!(
            cpu_source.wait_visibility(),
            WaitVisibility::Partial,
            "a brake must not use half of the waits"
        );
    }
}
