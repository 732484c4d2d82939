//! The reasons of a capacity decision, with their codes for logs, metrics and `explain`. Annotations do not carry
//! them.

use std::fmt;

use super::Rule;
use crate::hint::Contradiction;

/// A reason in a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// The resource is missing or unreadable in the write: left alone (G8).
    Absent,
    /// Neither ratio nor mode asks for anything.
    Unmanaged,
    /// Mode `off`, or the ratio is gone: raw restored.
    Restored,
    /// The ratio annotation was applied.
    Annotation,
    /// The ratio annotation is unusable: counts as 1.00 (G7).
    BadAnnotation,
    /// A fresh hint was applied.
    Hint,
    /// The hint is old: it may lower, not raise.
    HintHeld,
    /// No hint can be read: what was written last may be lowered, not raised.
    MarkerHeld,
    /// The hint is too old: at most 1.00.
    HintStopped,
    /// No hint yet.
    NoHint,
    /// The hint asks for more than may be added in one frame.
    Slewed,
    /// The hint was computed before the node's pods last changed: it may lower, not raise.
    OlderPods,
    /// The hint speaks of another capacity than the Node has: it may lower, not raise.
    OtherCapacity,
    /// The floor policy is not in force: hints may lower, not raise.
    NoFloor,
    /// In quarantine: the agent goes on speaking of another machine than the kubelet.
    QuarantinedCapacity,
    /// In quarantine: the agent does not brake memory although the kubelet is short of it.
    QuarantinedPressure,
    /// In quarantine: the agent says that far less is used than the kubelet says.
    QuarantinedUse,
    /// In quarantine: the agent reported from a boot that had ended.
    QuarantinedBoot,
    /// The agent sees nothing: at most 1.00.
    Blind,
    /// The agent has only procfs, whose word counts up to a limit.
    ProcfsOnly,
    /// The upper bound held it down.
    ClampedMax,
    /// The lower bound held it up.
    ClampedMin,
    /// A brake is in force.
    Braked,
    /// CPUs that pods hold for themselves alone are not amplified.
    ExclusiveCpus,
    /// What the kubelet has set aside for pods that it admitted held it up.
    FloorAdmitted,
    /// What bound pods hold that fit into the stored value held it up.
    FloorFit,
    /// What the node's pods hold is unknown, so the value was not lowered.
    FloorUnknown,
    /// Pods hold more than the mode's maximum and what was written last: not all of it is covered.
    FloorCapped,
    /// The product does not fit: raw kept (G9).
    Overflow,
    /// Someone other than the kubelet changed the value: it is the new baseline (G3).
    ForeignWriter,
    /// The node does not have that much, so the value is not raw but somebody else's amplification.
    AboveCapacity,
    /// The policy is not known: the last decision stays.
    PolicyUnknown,
}

impl Why {
    /// All reasons.
    pub const ALL: [Self; 32] = [
        Self::Absent,
        Self::Unmanaged,
        Self::Restored,
        Self::Annotation,
        Self::BadAnnotation,
        Self::Hint,
        Self::HintHeld,
        Self::MarkerHeld,
        Self::HintStopped,
        Self::NoHint,
        Self::Slewed,
        Self::OlderPods,
        Self::OtherCapacity,
        Self::NoFloor,
        Self::QuarantinedCapacity,
        Self::QuarantinedPressure,
        Self::QuarantinedUse,
        Self::QuarantinedBoot,
        Self::Blind,
        Self::ProcfsOnly,
        Self::ClampedMax,
        Self::ClampedMin,
        Self::Braked,
        Self::ExclusiveCpus,
        Self::FloorAdmitted,
        Self::FloorFit,
        Self::FloorUnknown,
        Self::FloorCapped,
        Self::Overflow,
        Self::ForeignWriter,
        Self::AboveCapacity,
        Self::PolicyUnknown,
    ];

    /// The reason of a quarantine.
    pub const fn quarantine(contradiction: Contradiction) -> Self {
        match contradiction {
            Contradiction::Capacity => Self::QuarantinedCapacity,
            Contradiction::MemoryPressure => Self::QuarantinedPressure,
            Contradiction::Use => Self::QuarantinedUse,
            Contradiction::EarlierBoot => Self::QuarantinedBoot,
        }
    }

    /// The contradiction behind a quarantine, where it is the reason of one.
    pub fn contradiction(self) -> Option<Contradiction> {
        Contradiction::ALL
            .into_iter()
            .find(|contradiction| Self::quarantine(*contradiction) == self)
    }

    /// The code in logs, metrics, annotations and `explain`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unmanaged => "unmanaged",
            Self::Restored => "restored",
            Self::Annotation => "annotation",
            Self::BadAnnotation => "bad-annotation",
            Self::Hint => "hint",
            Self::HintHeld => "hint-held",
            Self::MarkerHeld => "marker-held",
            Self::HintStopped => "hint-stopped",
            Self::NoHint => "no-hint",
            Self::Slewed => "slewed",
            Self::OlderPods => "older-pods",
            Self::OtherCapacity => "other-capacity",
            Self::NoFloor => "no-floor",
            Self::QuarantinedCapacity => "quarantined-capacity",
            Self::QuarantinedPressure => "quarantined-memory-pressure",
            Self::QuarantinedUse => "quarantined-use",
            Self::QuarantinedBoot => "quarantined-earlier-boot",
            Self::Blind => "blind",
            Self::ProcfsOnly => "procfs-only",
            Self::ClampedMax => "clamped-max",
            Self::ClampedMin => "clamped-min",
            Self::Braked => "braked",
            Self::ExclusiveCpus => "exclusive-cpus",
            Self::FloorAdmitted => "floor-admitted",
            Self::FloorFit => "floor-fit",
            Self::FloorUnknown => "floor-unknown",
            Self::FloorCapped => "floor-capped",
            Self::Overflow => "overflow",
            Self::ForeignWriter => "foreign-writer",
            Self::AboveCapacity => "above-capacity",
            Self::PolicyUnknown => "policy-unknown",
        }
    }

    /// The reason of that code.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.code() == code)
    }

    /// What it means, in a few words, for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Absent => "the write has no readable value: left alone",
            Self::Unmanaged => "neither mode nor annotation asks for anything: left alone",
            Self::Restored => "nothing asks for amplification any more: raw is restored",
            Self::Annotation => "the ratio annotation is applied",
            Self::BadAnnotation => "the ratio annotation cannot be used: it counts as 1.00",
            Self::Hint => "a fresh hint is applied",
            Self::HintHeld => "the hint is old, or only the annotation has it: it may lower, not raise",
            Self::MarkerHeld => "no hint can be read: what was written last may be lowered, not raised",
            Self::HintStopped => "the hint is too old: at most 1.00",
            Self::NoHint => "no agent has reported yet",
            Self::NoFloor => "the API server keeps no floor and nobody accepted that: hints do not raise",
            Self::Slewed => "the hint asks for more than may be added in one frame",
            Self::OlderPods => "the hint was computed before the pods changed last: it may lower, not raise",
            Self::OtherCapacity => {
                "the hint speaks of another capacity than the Node has: it may lower, not raise"
            }
            Self::QuarantinedCapacity => {
                "in quarantine, at most 1.00: the agent goes on speaking of another machine than the kubelet"
            }
            Self::QuarantinedPressure => {
                "in quarantine, at most 1.00: the agent finds memory to spare, the kubelet is short of it"
            }
            Self::QuarantinedUse => {
                "in quarantine, at most 1.00: the agent says that far less is used than the kubelet says"
            }
            Self::QuarantinedBoot => {
                "in quarantine, at most 1.00: the agent reported from a boot that had ended"
            }
            Self::Blind => "the agent sees nothing: at most 1.00",
            Self::ProcfsOnly => "the agent has procfs only: its word counts up to 1.50",
            Self::ClampedMax => "the upper bound holds it down",
            Self::ClampedMin => "the lower bound holds it up",
            Self::Braked => "a brake is in force: it does not rise",
            Self::ExclusiveCpus => "they are not amplified",
            Self::FloorAdmitted => "what the kubelet set aside for its pods holds it up",
            Self::FloorFit => "bound pods that fit into what is stored hold it up",
            Self::FloorUnknown => "what pods hold is not known: nothing is lowered",
            Self::FloorCapped => "pods hold more than may be covered: some fail if the kubelet restarts",
            Self::Overflow => "the product does not fit: raw stays",
            Self::AboveCapacity => {
                "it is above capacity, which no kubelet sends: what is known of raw counts"
            }
            Self::ForeignWriter => "somebody other than the kubelet changed it: their value counts as raw",
            Self::PolicyUnknown => "the policy is not known: what was decided last stays",
        }
    }

    /// The rule that it is a reason of.
    pub const fn rule(self) -> Rule {
        match self {
            Self::Absent | Self::Unmanaged | Self::ForeignWriter | Self::AboveCapacity => Rule::Baseline,
            Self::Restored
            | Self::Annotation
            | Self::BadAnnotation
            | Self::Hint
            | Self::HintHeld
            | Self::MarkerHeld
            | Self::HintStopped
            | Self::NoHint
            | Self::NoFloor
            | Self::Slewed
            | Self::OlderPods
            | Self::OtherCapacity
            | Self::QuarantinedCapacity
            | Self::QuarantinedPressure
            | Self::QuarantinedUse
            | Self::QuarantinedBoot
            | Self::Blind
            | Self::ProcfsOnly
            | Self::ClampedMax
            | Self::ClampedMin
            | Self::Braked
            | Self::PolicyUnknown => Rule::Ratio,
            Self::ExclusiveCpus => Rule::Exclusive,
            Self::FloorAdmitted => Rule::Admitted,
            Self::FloorFit | Self::FloorUnknown => Rule::Fit,
            Self::FloorCapped => Rule::Cap,
            Self::Overflow => Rule::Product,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
