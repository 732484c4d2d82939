//! Simulated agent of the days: the real estimator, with directives and reports converted as on the wire.

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::{
    estimate::{
        Boot, CpuPressure, Estimator, Frame, Lapse, MemoryPressure, PodUse, Pressure, Profile, Snapshot,
        Timing, View, Visibility,
    },
    hint::{AgentMode, NodeHint, PodTrust},
    resource::PerResource,
};
use headroom_proto::{NodeView, agent_policy, v1alpha1 as wire};

use super::{
    Trouble,
    node_and_pods::{NAME, UID},
};

const DAY: u32 = 24;

/// The agent of the node.
pub(super) struct SimulatedAgent {
    timing: Timing,
    estimator: Estimator,
    /// C: what the machine has.
    capacity: PerResource<u64>,
    generation: Option<u64>,
    has_pressure_condition: bool,
    seq: u64,
    boot: u64,
    saved: Option<Snapshot>,
}

/// Production, but that a day has fewer frames.
pub(super) fn short_days() -> Timing {
    Timing {
        ring_frames: DAY,
        trust_from: 2,
        trust_full: DAY,
        ..Profile::Production.timing()
    }
}

impl SimulatedAgent {
    /// An agent that knows nothing.
    pub(super) fn new(capacity: PerResource<u64>, timing: Timing) -> Self {
        Self {
            timing,
            estimator: Estimator::new(timing),
            capacity,
            generation: None,
            has_pressure_condition: false,
            seq: 0,
            boot: 0,
            saved: None,
        }
    }

    /// Restarts during `frame`; the last directive is lost.
    pub(super) fn start_again(&mut self, is_known: bool, is_other_boot: bool, frame: u64, now: Duration) {
        self.boot += u64::from(is_other_boot);
        let boot = if is_other_boot {
            Boot::Other {
                gap: Some(Duration::from_secs(60)),
            }
        } else {
            Boot::Same
        };
        self.estimator = match self.saved.clone().filter(|_| is_known) {
            Some(saved) => {
                Estimator::resume(self.timing, saved, Lapse { frame, now, boot }).expect("our own")
            }
            None => Estimator::new(self.timing),
        };
        (self.generation, self.has_pressure_condition) = (None, false);
    }

    /// Receives pods and policy from a replica; the replica that has seen most is followed.
    pub(super) fn direct(&mut self, pods: wire::Pods, policy: &wire::Policy) {
        if self.generation.is_some_and(|known| pods.generation < known) {
            return;
        }
        self.generation = Some(pods.generation);
        let NodeView {
            node_uid: _,
            view,
            has_memory_pressure,
        } = pods.try_into().expect("a view");
        self.has_pressure_condition = has_memory_pressure;
        let (bounds, target_ppm) = agent_policy(policy).expect("a policy");
        self.estimator.set_view(View {
            capacity: self.capacity,
            bounds,
            target_ppm,
            ..view
        });
    }

    /// A frame ended; what it measured is saved.
    pub(super) fn end_frame(
        &mut self,
        index: u64,
        peak: PerResource<u64>,
        pods: BTreeMap<String, PodUse>,
        now: Duration,
    ) {
        self.estimator.end_frame(&Frame {
            index,
            is_valid: true,
            peak,
            pods,
            ..Frame::default()
        });
        self.saved = Some(self.estimator.snapshot(now));
    }

    pub(super) fn end_period(&mut self, trouble: Option<Trouble>, now: Duration) {
        let mut memory = MemoryPressure {
            has_pressure_condition: self.has_pressure_condition,
            ..MemoryPressure::default()
        };
        let (mut sigma8_ppm, mut runq_p99_us) = (0, 0);
        match trouble {
            Some(Trouble::Cpu(level)) => {
                sigma8_ppm = [0, 20_000, 100_000, 300_000][usize::from(level)];
                runq_p99_us = 90_000;
            }
            Some(Trouble::Memory(level)) => {
                memory.spare_ppm = Some([1_000_000, 49_999, 29_999, 9_999][usize::from(level)]);
            }
            Some(Trouble::Oom) => memory.node_ooms = 1,
            None => {}
        }
        let pressure = Pressure {
            visibility: Visibility::ALL,
            cpu: CpuPressure {
                sigma8_ppm,
                runq_p99_us,
                ..CpuPressure::default()
            },
            memory,
        };
        self.estimator.end_brake_period(&pressure, now);
    }

    /// Current report, converted through the wire format; `None` before the first directive.
    pub(super) fn report(&mut self, is_primary: bool) -> Option<NodeHint> {
        let generation = self.generation?;
        self.seq += 1;
        let trust = self.estimator.trust().into_iter().map(|trust| PodTrust {
            uid: trust.uid,
            cpu_ppm: trust.ppm.cpu,
            memory_ppm: trust.ppm.memory,
            exclusive_cpus_milli: 0,
        });
        let is_blind = self
            .estimator
            .coverage_ppm(headroom_domain::resource::Resource::Cpu)
            == 0;
        let hint = NodeHint {
            node: NAME.to_owned(),
            node_uid: UID.to_owned(),
            boot_id: format!("boot-{}", self.boot),
            seq: self.seq,
            is_primary,
            pods_generation: generation,
            sight: if is_blind {
                AgentMode::Blind
            } else {
                AgentMode::Full
            },
            timing: Profile::Production,
            is_draining: false,
            resources: self.estimator.estimates().map(|_, estimate| estimate.hint(0)),
            trust: trust.collect(),
            steal_ppm: 0,
            signals: Vec::new(),
            past: None,
            frame_use: None,
        };
        Some(wire::HintReport::from(&hint).try_into().expect("a hint"))
    }
}
