//! The origin of an agent's history: the age of its beginning, and the reason why it began then.

use serde::{Deserialize, Serialize};

/// Why a history began when it did. What is saved of it is its place in this list: new ones go to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Beginning {
    /// Nothing is saved.
    NotSaved,
    /// There was nothing that had been saved.
    NothingSaved,
    /// What had been saved could not be used.
    Unusable,
    /// The machine was started again and its wall clock went back.
    ClockWentBack,
    /// Nobody measured for longer than a history lasts.
    AwayTooLong,
    /// It was taken over from a version that did not say.
    NotRecorded,
}

/// Since when a history counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    /// Age of its beginning, in seconds.
    pub age_s: u64,
    /// Why it began then; absent if a newer agent has a reason that is not known here.
    pub beginning: Option<Beginning>,
}

impl Beginning {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::NotSaved,
        Self::NothingSaved,
        Self::Unusable,
        Self::ClockWentBack,
        Self::AwayTooLong,
        Self::NotRecorded,
    ];

    /// The word on the wire and in documents.
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

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|beginning| beginning.name() == name)
    }

    /// Why, for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::NotSaved => "the agent was started then, and saves no checkpoints: its log says why",
            Self::NothingSaved => {
                "the agent found no checkpoint: the node is new, or the folder does not outlive the pod"
            }
            Self::Unusable => {
                "the agent could use no checkpoint and set aside what it found: its log says why"
            }
            Self::ClockWentBack => "the machine was started again and its wall clock went back",
            Self::AwayTooLong => "no agent measured for longer than the history lasts",
            Self::NotRecorded => "it was taken over from an agent that did not record its beginning",
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
