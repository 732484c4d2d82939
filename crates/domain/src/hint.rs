//! Hints: an agent's report about its node, and the webhook's table with the newest hint of each node.

mod capacity_tolerance;
mod frame_use;
mod freshness;
mod history_origin;
mod note;
mod reason;
mod report_check;
mod table;

use std::fmt;

pub use capacity_tolerance::{CAPACITY_TOLERANCE, differs as capacity_differs};
pub use frame_use::{FrameUse, PodFrameUse};
pub use freshness::{EffectiveHint, Freshness, HintQuery, Machine, NoRaiseReason, Origin};
pub use history_origin::{Beginning, Past};
pub use note::{Note, NoteError, NoteResource};
pub use reason::{Reason, Stage};
pub use report_check::{ByKubelet, Contradiction, ReportCheck};
pub use table::{ReportVerdict, Table};

use crate::{ratio::Cents, resource::PerResource, timing::Profile};

/// Signals that an agent can measure. See docs/estimator.md#brakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentMode {
    /// All signals; run-queue latency is sampled as configured.
    Full,
    /// All signals; run-queue latency is sampled less or not at all, because context switches are too frequent.
    FullShed,
    /// procfs only: averages over seconds.
    Proc,
    /// No signal from which a ratio can be derived; the node is not amplified.
    Blind,
}

impl AgentMode {
    /// All modes, from most to fewest signals.
    pub const ALL: [Self; 4] = [Self::Full, Self::FullShed, Self::Proc, Self::Blind];

    /// Word on the wire, in annotations and in tables, such as `FULL_SHED`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::FullShed => "FULL_SHED",
            Self::Proc => "PROC",
            Self::Blind => "BLIND",
        }
    }
}

impl fmt::Display for AgentMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Level of a resource's brake. See docs/estimator.md#brakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Brake {
    /// No brake is active; the ratio moves freely.
    #[default]
    Off,
    /// L1: the ratio may not rise.
    Hold,
    /// L2: the free part of the amplification halves in each period.
    Shed,
    /// L3: no amplification beyond the requests of bound pods.
    Stop,
}

impl Brake {
    /// All levels, weakest first; the index is the number of the level.
    pub const ALL: [Self; 4] = [Self::Off, Self::Hold, Self::Shed, Self::Stop];

    /// Number of the level, 0 to 3.
    pub const fn level(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Hold => 1,
            Self::Shed => 2,
            Self::Stop => 3,
        }
    }

    /// Level of that number; `None` above 3.
    pub fn from_level(level: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(level).ok()?).copied()
    }
}

/// One resource of a hint. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceHint {
    /// Physical capacity, as in the Node object.
    pub capacity: u64,
    /// Isolated CPUs within the capacity; C is the capacity without them. 0 for memory, and from agents that do not
    /// report it.
    pub isolated: u64,
    /// Mean measured use of the last frame. CPU excludes isolated CPUs and time stolen by the hypervisor.
    pub usage: u64,
    /// P0: highest conditioned peak, before the margin.
    pub peak: u64,
    /// Frames between the highest conditioned peak and the last frame; for display only.
    pub peak_age_frames: u64,
    /// Terms of P0; absent without any valid frame, and from agents that do not report them. For display only.
    pub highs: Option<Highs>,
    /// P: predicted peak, P0 with its margin.
    pub predicted_peak: u64,
    /// Rw: requests of trusted pods, weighted by trust.
    pub warm_requests: u64,
    /// Ratio to apply now, before the floor.
    pub published: Cents,
    /// Ratio towards which the publication moves.
    pub target: Cents,
    /// Progress of the publication; absent from agents that do not report it. For display only.
    pub progress: Option<Progress>,
    /// Valid share of the history, in ppm.
    pub coverage_ppm: u32,
    /// m: margin applied to the peak, in ppm.
    pub margin_ppm: u32,
    /// Calibration of the margin by outcomes; absent from agents that do not report it. For display only.
    pub calibration: Option<Calibration>,
    /// Level of the active brake.
    pub brake: Brake,
    /// Codes of [`Reason`], most important first; a newer agent may send unknown ones.
    pub reasons: Vec<String>,
}

impl ResourceHint {
    /// C: capacity without isolated CPUs.
    pub const fn usable_capacity(&self) -> u64 {
        self.capacity.saturating_sub(self.isolated)
    }
}

/// Terms of P0. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Highs {
    /// max H: highest conditioned peak.
    pub highest: u64,
    /// H\[t-1\]: conditioned peak of the last valid frame.
    pub last: u64,
    /// G: worst climb of memory; 0 for CPU.
    pub climb: u64,
}

/// Progress of a publication towards its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Ratio reached so far, before the requests of bound pods count.
    pub stepped: Cents,
    /// Consecutive frames whose target was higher by at least the dead band.
    pub agreeing_frames: u32,
}

/// Calibration of the margin by the outcomes of earlier ratios. See docs/margin.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calibration {
    /// M, in ppm: up to 1,048,999; up to 2,225,999 from agents that counted incidents by the hours they overlap.
    pub accumulator_ppm: u32,
    /// True while bad outcomes keep the node from being amplified.
    pub is_latched: bool,
}

/// Trust in the requests of one pod: the part that counts as warm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTrust {
    /// UID of the pod object.
    pub uid: String,
    /// Trust in its CPU request, 0 to 1,000,000 ppm.
    pub cpu_ppm: u32,
    /// Trust in its memory request, 0 to 1,000,000 ppm.
    pub memory_ppm: u32,
    /// Exclusive CPUs of the pod, in milli-cores.
    pub exclusive_cpus_milli: u64,
}

/// One measured signal behind a hint; for display only, no rule reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// Name in the agent's table of signals.
    pub name: String,
    /// Unit of the value, such as `ppm`.
    pub unit: String,
    /// Last measurement of the signal, in [`Self::unit`].
    pub value: u64,
}

/// One report of an agent: all that the webhook receives about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHint {
    /// Name of the Node object.
    pub node: String,
    /// UID of the Node object that the report is about.
    pub node_uid: String,
    /// Boot ID of the kernel.
    pub boot_id: String,
    /// Sequence number; rises with each report of one boot.
    pub seq: u64,
    /// True on the stream to the replica that nudges for this node.
    pub is_primary: bool,
    /// Generation of the pod store behind the numbers.
    pub pods_generation: u64,
    /// Signals that the agent can measure.
    pub sight: AgentMode,
    /// Timing profile of the estimator.
    pub timing: Profile,
    /// True when the agent is about to stop and a successor is expected.
    pub is_draining: bool,
    /// Capacity, use, ratio and brake per resource.
    pub resources: PerResource<ResourceHint>,
    /// Trust per pod, by UID.
    pub trust: Vec<PodTrust>,
    /// Share of C stolen by the hypervisor in the last second, in ppm; kubelets count it as use.
    pub steal_ppm: u32,
    /// Measured signals; for display only.
    pub signals: Vec<Signal>,
    /// Origin of the history; absent from agents that do not report it. For display only.
    pub past: Option<Past>,
    /// Use of the pods in the last frame, for the profiles of workloads. Absent from older agents, and unless the frame
    /// has just ended. The table of hints does not keep it.
    pub frame_use: Option<FrameUse>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// First row of docs/estimator.md#a-worked-example as a hint.
    pub(crate) fn hint(node: &str, seq: u64) -> NodeHint {
        let cpu = ResourceHint {
            capacity: 32_000,
            predicted_peak: 15_290,
            published: Cents(128),
            target: Cents(128),
            reasons: vec!["slack".to_owned()],
            ..ResourceHint::default()
        };
        let memory = ResourceHint {
            published: Cents::ONE,
            target: Cents::ONE,
            ..ResourceHint::default()
        };
        NodeHint {
            node: node.to_owned(),
            node_uid: "u1".to_owned(),
            boot_id: "b1".to_owned(),
            seq,
            is_primary: true,
            pods_generation: 1,
            sight: AgentMode::Full,
            timing: Profile::Production,
            is_draining: false,
            resources: PerResource { cpu, memory },
            trust: Vec::new(),
            steal_ppm: 0,
            signals: Vec::new(),
            past: None,
            frame_use: None,
        }
    }

    #[test]
    fn agent_modes_print_their_names() {
        assert!(
            AgentMode::ALL
                .iter()
                .all(|sight| sight.to_string() == sight.name())
        );
        assert_eq!(
            AgentMode::ALL.map(AgentMode::name),
            ["FULL", "FULL_SHED", "PROC", "BLIND"]
        );
    }

    #[test]
    fn brake_levels_and_numbers_agree() {
        for brake in Brake::ALL {
            assert_eq!(Brake::from_level(u32::from(brake.level())), Some(brake));
        }
        assert_eq!(Brake::from_level(4), None);
    }
}
