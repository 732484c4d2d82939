//! Reasons of a capacity decision, with their codes for logs, metrics and `explain`. Annotations do not contain them.

use std::fmt;

use super::Rule;
use crate::hint::Contradiction;

/// Reason in a decision about one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// The resource is missing or unreadable in the write: left unchanged (G8).
    Absent,
    /// Neither ratio annotation nor mode requests amplification.
    Unmanaged,
    /// Mode `off`, or the ratio annotation was removed: raw is restored.
    Restored,
    /// The ratio annotation is applied.
    Annotation,
    /// The ratio annotation is invalid: counts as 1.00 (G7).
    BadAnnotation,
    /// The policy lets the ratio annotation have no effect: counts as 1.00.
    AnnotationIgnored,
    /// A fresh hint is applied.
    Hint,
    /// The hint is old: it may lower the ratio, not raise it.
    HintHeld,
    /// No hint is readable: the last written value may be lowered, not raised.
    MarkerHeld,
    /// The hint is too old: at most 1.00.
    HintStopped,
    /// No agent has reported yet.
    NoHint,
    /// The hint is more than one frame's step above the last ratio.
    Slewed,
    /// The hint was computed before the node's pods last changed: it may lower the ratio, not raise it.
    OlderPods,
    /// The hint's capacity differs from the Node's: it may lower the ratio, not raise it.
    OtherCapacity,
    /// The floor policy is not in force: hints may lower the ratio, not raise it.
    NoFloor,
    /// In quarantine: the agent keeps reporting another capacity than the kubelet.
    QuarantinedCapacity,
    /// In quarantine: the agent does not brake memory although the kubelet reports `MemoryPressure`.
    QuarantinedPressure,
    /// In quarantine: the agent reports far less use than the kubelet.
    QuarantinedUse,
    /// In quarantine: the agent sent a report from a boot that had ended.
    QuarantinedBoot,
    /// The agent has no measurements: at most 1.00.
    Blind,
    /// The agent has only procfs, so its hint counts up to a limit.
    ProcfsOnly,
    /// The policy's maximum limits the ratio.
    ClampedMax,
    /// The policy's minimum raises the ratio.
    ClampedMin,
    /// A brake is active: the ratio does not rise.
    Braked,
    /// Exclusive CPUs of pods are not amplified.
    ExclusiveCpus,
    /// The kubelet's allocations for admitted pods raise the result.
    FloorAdmitted,
    /// Bound pods that fit the stored value raise the result.
    FloorFit,
    /// Open places of pods that left keep the stored value.
    FloorPlaces,
    /// The demand of the node's pods is unknown, so the value is not lowered.
    FloorUnknown,
    /// The demand of pods exceeds the cap: not all of it is covered.
    FloorCapped,
    /// The product does not fit 63 bits: raw stays (G9).
    Overflow,
    /// A client other than the kubelet changed the value: it is the new baseline (G3).
    ForeignWriter,
    /// The value exceeds capacity, so it is another webhook's amplification and not raw.
    AboveCapacity,
    /// The policy is not known: the last decision stays.
    PolicyUnknown,
}

impl Why {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 34] = [
        Self::Absent,
        Self::Unmanaged,
        Self::Restored,
        Self::Annotation,
        Self::BadAnnotation,
        Self::AnnotationIgnored,
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
        Self::FloorPlaces,
        Self::FloorUnknown,
        Self::FloorCapped,
        Self::Overflow,
        Self::ForeignWriter,
        Self::AboveCapacity,
        Self::PolicyUnknown,
    ];

    /// Reason for a quarantine with this contradiction.
    pub const fn quarantine(contradiction: Contradiction) -> Self {
        match contradiction {
            Contradiction::Capacity => Self::QuarantinedCapacity,
            Contradiction::MemoryPressure => Self::QuarantinedPressure,
            Contradiction::Use => Self::QuarantinedUse,
            Contradiction::EarlierBoot => Self::QuarantinedBoot,
        }
    }

    /// Contradiction behind a quarantine; `None` for other reasons.
    pub fn contradiction(self) -> Option<Contradiction> {
        Contradiction::ALL
            .into_iter()
            .find(|contradiction| Self::quarantine(*contradiction) == self)
    }

    /// Code in logs, metrics and `explain`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unmanaged => "unmanaged",
            Self::Restored => "restored",
            Self::Annotation => "annotation",
            Self::BadAnnotation => "bad-annotation",
            Self::AnnotationIgnored => "annotation-ignored",
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
            Self::FloorPlaces => "floor-places",
            Self::FloorUnknown => "floor-unknown",
            Self::FloorCapped => "floor-capped",
            Self::Overflow => "overflow",
            Self::ForeignWriter => "foreign-writer",
            Self::AboveCapacity => "above-capacity",
            Self::PolicyUnknown => "policy-unknown",
        }
    }

    /// Reason of that code; `None` if unknown.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.code() == code)
    }

    /// Short description for `explain` and `kubectl headroom reasons`.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Absent => "the write has no readable value: left unchanged",
            Self::Unmanaged => "neither mode nor annotation requests amplification: left unchanged",
            Self::Restored => "amplification is no longer requested: raw is restored",
            Self::Annotation => "the ratio annotation is applied",
            Self::BadAnnotation => "the ratio annotation is invalid: it counts as 1.00",
            Self::AnnotationIgnored => "the policy ignores the ratio annotation: it counts as 1.00",
            Self::Hint => "a fresh hint is applied",
            Self::HintHeld => {
                "the hint is old, or comes only from the annotation: it may lower the ratio, not raise it"
            }
            Self::MarkerHeld => "no hint is readable: the last written value may be lowered, not raised",
            Self::HintStopped => "the hint is too old: at most 1.00",
            Self::NoHint => "no agent has reported yet",
            Self::NoFloor => {
                "the API server does not enforce the floor, and --accept-no-floor is not set: hints do not raise the ratio"
            }
            Self::Slewed => {
                "the hint is more than one step above the last ratio: the ratio rises by one step per frame"
            }
            Self::OlderPods => {
                "the hint was computed before the pods last changed: it may lower the ratio, not raise it"
            }
            Self::OtherCapacity => {
                "the hint's capacity differs from the Node's: it may lower the ratio, not raise it"
            }
            Self::QuarantinedCapacity => {
                "in quarantine, at most 1.00: the agent keeps reporting another capacity than the kubelet"
            }
            Self::QuarantinedPressure => {
                "in quarantine, at most 1.00: the agent does not brake memory although the kubelet reports MemoryPressure"
            }
            Self::QuarantinedUse => {
                "in quarantine, at most 1.00: the agent reports far less use than the kubelet"
            }
            Self::QuarantinedBoot => {
                "in quarantine, at most 1.00: the agent sent a report from a boot that had ended"
            }
            Self::Blind => "the agent has no measurements: at most 1.00",
            Self::ProcfsOnly => "the agent has only procfs: its hint counts up to 1.50",
            Self::ClampedMax => "the policy's maximum limits the ratio",
            Self::ClampedMin => "the policy's minimum raises the ratio",
            Self::Braked => "a brake is active: the ratio does not rise",
            Self::ExclusiveCpus => "exclusive CPUs are not amplified",
            Self::FloorAdmitted => "raised to the kubelet's allocations for admitted pods",
            Self::FloorFit => "raised to the requests of bound pods that fit the stored value",
            Self::FloorPlaces => {
                "raised to keep capacity for successors of pods that left within the last 10 minutes"
            }
            Self::FloorUnknown => "the demand of the node's pods is not known: nothing is lowered",
            Self::FloorCapped => "pods hold more than the cap: some fail if the kubelet restarts",
            Self::Overflow => "the product is too large: raw stays",
            Self::AboveCapacity => {
                "the value is above capacity, which no kubelet sends: the recorded raw value counts"
            }
            Self::ForeignWriter => "a client other than the kubelet changed it: the new value counts as raw",
            Self::PolicyUnknown => "the policy is not known: the last decision stays",
        }
    }

    /// Rule that the reason belongs to.
    pub const fn rule(self) -> Rule {
        match self {
            Self::Absent | Self::Unmanaged | Self::ForeignWriter | Self::AboveCapacity => Rule::Baseline,
            Self::Restored
            | Self::Annotation
            | Self::BadAnnotation
            | Self::AnnotationIgnored
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
            Self::FloorPlaces => Rule::Places,
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
