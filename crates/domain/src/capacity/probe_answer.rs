//! [`ProbeAnswer`]: the webhook's answer to a dry run that asks for the next decision about a Node.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{Decision, NodeState, amount};
use crate::{
    names,
    policy::Mode,
    resource::{PerResource, Resource},
};

/// Value with which a dry run asks. A webhook replaces it.
pub const QUESTION: &str = "{}";

/// Decision about the next status write of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// Mode in force; `None` while the webhook does not know it.
    pub mode: Option<Mode>,
    /// True if Headroom's records stay on the Node.
    pub is_marked: bool,
    /// Allocatable that would be stored, in milli-cores and bytes.
    pub allocatable: PerResource<Option<u64>>,
}

/// Members of the JSON object.
#[derive(Debug, Serialize, Deserialize)]
struct Members {
    mode: Option<String>,
    marked: bool,
    #[serde(default)]
    allocatable: BTreeMap<String, u64>,
}

/// The text is not an answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeAnswerError {
    /// The text is not JSON of the expected form.
    #[error("not the answer to a probe")]
    Json(#[from] serde_json::Error),
    /// The mode is unknown.
    #[error(transparent)]
    Mode(#[from] crate::policy::ModeError),
}

impl ProbeAnswer {
    /// Answer of a decision about a Node in this state.
    pub fn new(decision: &Decision, state: &NodeState, mode: Option<Mode>) -> Self {
        let marker = decision
            .annotations
            .iter()
            .find_map(|(key, value)| (*key == names::MARKER).then_some(value.is_some()));
        let decided = |resource: Resource| {
            let stored = || amount(resource, state.allocatable.get(resource).as_ref()?);
            decision.outcomes.get(resource).result.or_else(stored)
        };
        Self {
            mode,
            is_marked: marker.unwrap_or(state.annotations.marker.is_some()),
            allocatable: PerResource::from_fn(decided),
        }
    }
}

impl fmt::Display for ProbeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mode,
            is_marked,
            allocatable,
        } = self;
        let amounts = Resource::ALL.into_iter().filter_map(|resource| {
            let amount = (*allocatable.get(resource))?;
            Some((resource.name().to_owned(), amount))
        });
        let members = Members {
            mode: mode.map(|mode| mode.name().to_owned()),
            marked: *is_marked,
            allocatable: amounts.collect(),
        };
        f.write_str(&serde_json::to_string(&members).map_err(|_unserializable| fmt::Error)?)
    }
}

impl FromStr for ProbeAnswer {
    type Err = ProbeAnswerError;

    fn from_str(text: &str) -> Result<Self, ProbeAnswerError> {
        let Members {
            mode,
            marked,
            allocatable,
        } = serde_json::from_str(text)?;
        Ok(Self {
            mode: mode.map(|word| word.parse()).transpose()?,
            is_marked: marked,
            allocatable: PerResource::from_fn(|resource| allocatable.get(resource.name()).copied()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_written_and_the_question_is_no_answer() {
        let answer = ProbeAnswer {
            mode: Some(Mode::Off),
            is_marked: true,
            allocatable: PerResource {
                cpu: Some(5_000),
                memory: None,
            },
        };
        let text = answer.to_string();
        assert_eq!(text, r#"{"mode":"off","marked":true,"allocatable":{"cpu":5000}}"#);
        assert_eq!(text.parse::<ProbeAnswer>().unwrap(), answer);
        for text in [QUESTION, "", r#"{"mode":"of","marked":true}"#] {
            assert!(text.parse::<ProbeAnswer>().is_err(), "{text}");
        }
    }
}
