//! The rules of a capacity decision, by name and in the order in which they apply.

/// A rule of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Which value is the kubelet's own.
    Baseline,
    /// The ratio by mode, annotation, hint and bounds.
    Ratio,
    /// What is not amplified.
    Exclusive,
    /// Raw times ratio.
    Product,
    /// What admitted pods hold.
    Admitted,
    /// What pods hold that fit into what is stored.
    Fit,
    /// What no pod can hold the result above.
    Cap,
    /// What allocatable is to be.
    Result,
}

impl Rule {
    /// All rules in the order in which they apply.
    pub const ALL: [Self; 8] = [
        Self::Baseline,
        Self::Ratio,
        Self::Exclusive,
        Self::Product,
        Self::Admitted,
        Self::Fit,
        Self::Cap,
        Self::Result,
    ];

    /// The word in tables and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Ratio => "ratio",
            Self::Exclusive => "exclusive",
            Self::Product => "product",
            Self::Admitted => "admitted",
            Self::Fit => "fit",
            Self::Cap => "cap",
            Self::Result => "result",
        }
    }

    /// The rule of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// What it says, in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Baseline => "raw: what the kubelet itself makes of the machine",
            Self::Ratio => "by mode, annotation, hint and bounds",
            Self::Exclusive => "of raw, CPUs that pods hold for themselves",
            Self::Product => "raw times the ratio, exclusive CPUs aside; cut off",
            Self::Admitted => {
                "what the kubelet set aside for admitted pods; within the cap the result is not below it"
            }
            Self::Fit => "with bound pods that fit into what is stored; they hold that, and no more",
            Self::Cap => "raw times the mode's maximum, or what was written last if more",
            Self::Result => "what allocatable is to be",
        }
    }
}
