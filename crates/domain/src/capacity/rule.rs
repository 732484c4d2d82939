//! [`Rule`]: the rules of a capacity decision, in the order in which they apply.

/// Rule of a decision about one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Raw: the kubelet's own value.
    Baseline,
    /// Ratio from mode, annotation, hint and bounds.
    Ratio,
    /// Part of raw that is not amplified.
    Exclusive,
    /// Raw times ratio, without exclusive CPUs.
    Product,
    /// Amounts that the kubelet allocated for admitted pods.
    Admitted,
    /// Demand of admitted pods and of bound pods that fit the stored value.
    Fit,
    /// K: open places of pods that left, within their limits.
    Places,
    /// Largest value to which pods can raise the result.
    Cap,
    /// Allocatable that the write stores.
    Result,
}

impl Rule {
    /// All rules in the order in which they apply.
    pub const ALL: [Self; 9] = [
        Self::Baseline,
        Self::Ratio,
        Self::Exclusive,
        Self::Product,
        Self::Admitted,
        Self::Fit,
        Self::Places,
        Self::Cap,
        Self::Result,
    ];

    /// Word in tables and on the wire, such as `baseline`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Ratio => "ratio",
            Self::Exclusive => "exclusive",
            Self::Product => "product",
            Self::Admitted => "admitted",
            Self::Fit => "fit",
            Self::Places => "places",
            Self::Cap => "cap",
            Self::Result => "result",
        }
    }

    /// Rule of that name; `None` if unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// Short description for `kubectl headroom explain`.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Baseline => "raw: the kubelet's own allocatable",
            Self::Ratio => "chosen by mode, annotation, hint and bounds",
            Self::Exclusive => "exclusive CPUs of pods, part of raw",
            Self::Product => "raw times the ratio, without exclusive CPUs; rounded down",
            Self::Admitted => {
                "allocated by the kubelet for admitted pods; up to the cap, the result is not below it"
            }
            Self::Fit => {
                "with bound pods that fit the stored value; they keep that value and do not raise it"
            }
            Self::Places => {
                "left by pods of controllers for their successors; with fit, they keep the stored value"
            }
            Self::Cap => "raw times the mode's maximum, or the last written value if larger",
            Self::Result => "allocatable to store",
        }
    }
}
