//! Origin of an agent's history: age of its beginning, and the reason why it began then.

use serde::{Deserialize, Serialize};

/// Reason why a history began when it did. Checkpoints store the position in this list: append new reasons at the
/// end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Beginning {
    /// The agent saves no checkpoints.
    NotSaved,
    /// The agent found no checkpoint.
    NothingSaved,
    /// The agent found only unusable checkpoints.
    Unusable,
    /// The machine was rebooted and its wall clock went back.
    ClockWentBack,
    /// No agent measured for longer than a history covers.
    AwayTooLong,
    /// The checkpoint comes from a version that did not record it.
    NotRecorded,
}

/// Age of a history and the reason of its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    /// Age of the history's beginning, in seconds.
    pub age_s: u64,
    /// Reason of the beginning; absent if a newer agent sent an unknown one.
    pub beginning: Option<Beginning>,
}

impl Beginning {
    /// All reasons, in the order of checkpoints.
    pub const ALL: [Self; 6] = [
        Self::NotSaved,
        Self::NothingSaved,
        Self::Unusable,
        Self::ClockWentBack,
        Self::AwayTooLong,
        Self::NotRecorded,
    ];

    /// Word on the wire and in documents, such as `not-saved`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotSaved => "not-saved",
            Self::NothingSaved => "nothing-saved",
            Self::Unusable => "unusable-checkpoint",
            Self::ClockWentBack => "clock-went-back",
            Self::AwayTooLong => "away-too-long",
            Self::NotRecorded => "not-recorded",
        }
    }

    /// Reason of that name; `None` if unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|beginning| beginning.name() == name)
    }

    /// Short description for `kubectl headroom agent` and `explain`.
    pub const fn about(self) -> &'static str {
        match self {
            Self::NotSaved => "the agent started then and saves no checkpoints; its log states the reason",
            Self::NothingSaved => {
                "the agent found no checkpoint: the node is new, or the directory does not outlive the pod"
            }
            Self::Unusable => {
                "the agent found only unusable checkpoints and moved them aside; its log states the reason"
            }
            Self::ClockWentBack => "the machine was rebooted and its wall clock went back",
            Self::AwayTooLong => "no agent measured for longer than a history covers",
            Self::NotRecorded => "it comes from an agent version that did not record the reason",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for beginning in Beginning::ALL {
            assert_eq!(Beginning::from_name(beginning.name()), Some(beginning));
        }
        assert_eq!(Beginning::from_name("eclipse"), None);
    }
}
