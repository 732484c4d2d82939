//! The reasons of a decision, and their codes.

use std::fmt;

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
    /// The hint is too old: at most 1.00.
    HintStopped,
    /// No hint yet.
    NoHint,
    /// The agent sees nothing: at most 1.00.
    Blind,
    /// The upper bound held it down.
    ClampedMax,
    /// The lower bound held it up.
    ClampedMin,
    /// A brake is in force.
    Braked,
    /// What is bound to the node held it up.
    FloorRequests,
    /// What is bound is unknown, so the value was not lowered.
    FloorUnknown,
    /// The product does not fit: raw kept (G9).
    Overflow,
    /// Someone other than the kubelet changed the value: it is the new baseline (G3).
    ForeignWriter,
    /// The policy is not known: the last decision stays.
    PolicyUnknown,
}

impl Why {
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
            Self::HintStopped => "hint-stopped",
            Self::NoHint => "no-hint",
            Self::Blind => "blind",
            Self::ClampedMax => "clamped-max",
            Self::ClampedMin => "clamped-min",
            Self::Braked => "braked",
            Self::FloorRequests => "floor-requests",
            Self::FloorUnknown => "floor-unknown",
            Self::Overflow => "overflow",
            Self::ForeignWriter => "foreign-writer",
            Self::PolicyUnknown => "policy-unknown",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
