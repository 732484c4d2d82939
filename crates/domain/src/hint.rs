//! Hints: an agent's report about its node as domain types, and the webhook's table of the newest hint of each node.

mod capacity_tolerance;
mod freshness;
mod history_origin;
mod note;
mod reason;
mod report_check;
mod table;

use std::fmt;

pub use capacity_tolerance::{CAPACITY_TOLERANCE, differs as capacity_differs};
pub use freshness::{EffectiveHint, Freshness, HintQuery, Machine, NoRaiseReason, Origin};
pub use history_origin::{Beginning, Past};
pub use note::{Note, NoteError, NoteResource};
pub use reason::{Reason, Stage};
pub use report_check::{ByKubelet, Contradiction, ReportCheck};
pub use table::{ReportVerdict, Table};

use crate::{ratio::Cents, resource::PerResource, timing::Profile};

/// How much an agent can see. See docs/estimator.md#brakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentMode {
    /// All signals, run-queue latency sampled as configured.
    Full,
    /// All signals, run-queue latency sampled less or not at all because switching itself is too frequent.
    FullShed,
    /// procfs only: averages over seconds.
    Proc,
    /// Nothing that a ratio could be derived from; the node is not amplified.
    Blind,
}

impl AgentMode {
    /// All modes, best first.
    pub const ALL: [Self; 4] = [Self::Full, Self::FullShed, Self::Proc, Self::Blind];

    /// The word on the wire, in annotations and in tables.
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

/// How hard a resource is braked. See docs/estimator.md#brakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Brake {
    /// Not at all.
    #[default]
    Off,
    /// L1: the ratio may not rise.
    Hold,
    /// L2: free capacity halves at each step.
    Shed,
    /// L3: no amplification beyond what is bound.
    Stop,
}

impl Brake {
    /// All levels, weakest first; the index is the level's number.
    pub const ALL: [Self; 4] = [Self::Off, Self::Hold, Self::Shed, Self::Stop];

    /// The level's number, 0 to 3.
    pub const fn level(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Hold => 1,
            Self::Shed => 2,
            Self::Stop => 3,
        }
    }

    /// The level of that number.
    pub fn from_level(level: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(level).ok()?).copied()
    }
}

/// One resource of a hint. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceHint {
    /// Physical capacity, as the Node object has it.
    pub capacity: u64,
    /// Of that, isolated CPUs: C is capacity without them. 0 from agents that do not say so, and for memory.
    pub isolated: u64,
    /// Measured use, mean over the last frame; for CPU without isolated CPUs and time stolen by the hypervisor.
    pub usage: u64,
    /// P0: the highest conditioned peak, before the margin.
    pub peak: u64,
    /// How many frames before the last one the highest conditioned peak was; for people.
    pub peak_age_frames: u64,
    /// What P0 was made of; absent without any valid frame, and from agents that do not say so. For people.
    pub highs: Option<Highs>,
    /// P: the predicted peak.
    pub predicted_peak: u64,
    /// Rw: requests of the pods that are trusted, weighted by trust.
    pub warm_requests: u64,
    /// The ratio to apply now.
    pub published: Cents,
    /// The ratio that the publication moves towards.
    pub target: Cents,
    /// How far the publication has moved; absent from agents that do not say so. For people.
    pub progress: Option<Progress>,
    /// Share of the history that is valid, in ppm.
    pub coverage_ppm: u32,
    /// m: the margin applied to the peak, in ppm.
    pub margin_ppm: u32,
    /// What outcomes made of the margin; absent from agents that do not say so. For people.
    pub calibration: Option<Calibration>,
    /// The brake in force.
    pub brake: Brake,
    /// Codes of [`Reason`], most important first; a newer agent can have others.
    pub reasons: Vec<String>,
}

impl ResourceHint {
    /// C: capacity without isolated CPUs.
    pub const fn usable_capacity(&self) -> u64 {
        self.capacity.saturating_sub(self.isolated)
    }
}

/// What P0 was made of. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Highs {
    /// max H: the highest conditioned peak.
    pub highest: u64,
    /// H\[t-1\]: the last conditioned peak, of the last valid frame.
    pub last: u64,
    /// G: the worst climb of memory; 0 for CPU.
    pub climb: u64,
}

/// How far a publication has moved towards its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The ratio that it has come to, before what is bound counts.
    pub stepped: Cents,
    /// Frames in a row whose target was higher by the dead band or more.
    pub agreeing_frames: u32,
}

/// What outcomes made of the margin. See docs/margin.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calibration {
    /// M, in ppm: up to 1,048,999, and 2,225,999 of agents that counted incidents by the hours they overlap.
    pub accumulator_ppm: u32,
    /// True while outcomes keep the node from being amplified.
    pub is_latched: bool,
}

/// How far one pod's requests may be counted as warm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTrust {
    /// The pod's UID.
    pub uid: String,
    /// Trust in its CPU request, in ppm.
    pub cpu_ppm: u32,
    /// Trust in its memory request, in ppm.
    pub memory_ppm: u32,
    /// CPUs held exclusively, in milli-cores.
    pub exclusive_cpus_milli: u64,
}

/// One measured signal behind a hint, for people: no rule knows any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// As the agent's table of signals calls it.
    pub name: String,
    /// What one unit of the value is.
    pub unit: String,
    /// The last measurement.
    pub value: u64,
}

/// One report of an agent: everything the webhook learns about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHint {
    /// The node's name.
    pub node: String,
    /// The UID of the Node object that the report is for.
    pub node_uid: String,
    /// The kernel's boot id.
    pub boot_id: String,
    /// Rises with each report of one boot.
    pub seq: u64,
    /// True on the stream whose replica nudges for this node.
    pub is_primary: bool,
    /// The pod store generation that the numbers were computed with.
    pub pods_generation: u64,
    /// How much the agent sees.
    pub sight: AgentMode,
    /// The timing profile in force.
    pub timing: Profile,
    /// True when the agent is about to end and its successor is expected.
    pub is_draining: bool,
    /// The numbers per resource.
    pub resources: PerResource<ResourceHint>,
    /// Trust per pod.
    pub trust: Vec<PodTrust>,
    /// Share of C stolen by the hypervisor in the last second, in ppm: a kubelet counts it as use.
    pub steal_ppm: u32,
    /// The signals that were measured.
    pub signals: Vec<Signal>,
    /// Since when the history counts; absent from agents that do not say so. For people.
    pub past: Option<Past>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The first row of docs/estimator.md#a-worked-example as a hint.
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
        }
    }

    #[test]
    fn what_an_agent_sees_is_shown_by_its_name() {
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
