//! Reads the specification of a profile and checks what can be checked without a pod.

use std::collections::BTreeMap;

use headroom_domain::selector::{LabelSelector, Selector, SelectorError};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    container::null_is_default,
    merge::{Patch, PatchError},
};

/// Longest part of a value that an error shows, in characters.
const LONGEST_SHOWN: usize = 40;

/// A profile that can be applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub(super) namespace_selector: Selector,
    pub(super) selector: Selector,
    /// In percent; anything from 100 on is always, anything up to 0 never.
    pub(super) probability: i32,
    pub(super) effects: Effects,
    pub(super) patch: Option<Patch>,
}

/// What a profile writes, as its specification has it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Effects {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) label_keys_mapping: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) annotation_keys_mapping: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) label_suffixes: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) scheduler_name: String,
    #[serde(rename = "qosClass", deserialize_with = "null_is_default")]
    pub(super) qos_class: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) priority_class_name: String,
    pub(super) koordinator_priority: Option<i32>,
}

/// Who a profile is for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Scope {
    namespace_selector: Option<LabelSelector>,
    selector: Option<LabelSelector>,
    probability: Option<Value>,
    patch: Option<Value>,
}

/// Why a profile cannot be applied to anything.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It is not what the kind says.
    #[error("spec cannot be read")]
    Read(#[from] serde_json::Error),
    /// A selector cannot be read.
    #[error("spec.{member} is invalid")]
    Selector {
        /// The selector.
        member: &'static str,
        /// What is wrong with it.
        source: SelectorError,
    },
    /// The probability is no percentage.
    #[error("spec.probability: invalid value for IntOrString: {0}")]
    Probability(String),
    /// The priority is no value of a label.
    #[error("spec.koordinatorPriority: {0} is negative, and a label cannot begin with a dash")]
    Priority(i32),
    /// The patch is none.
    #[error("spec.patch")]
    Patch(#[from] PatchError),
}

impl Profile {
    /// The profile of a specification, which is JSON.
    ///
    /// # Errors
    /// It cannot be read, or a selector, the probability, the priority or the patch in it is invalid.
    pub fn compile(spec: &str) -> Result<Self, ProfileError> {
        let effects: Effects = serde_json::from_str(spec)?;
        let Scope {
            namespace_selector,
            selector,
            probability,
            patch,
        } = serde_json::from_str(spec)?;
        if let Some(priority) = effects.koordinator_priority.filter(|priority| *priority < 0) {
            return Err(ProfileError::Priority(priority));
        }
        Ok(Self {
            namespace_selector: read_selector("namespaceSelector", namespace_selector)?,
            selector: read_selector("selector", selector)?,
            probability: probability.map_or(Ok(100), |written| percent(&written))?,
            effects,
            patch: patch.map(Patch::new).transpose()?,
        })
    }

    /// The PriorityClass that applying it needs.
    pub fn priority_class_name(&self) -> Option<&str> {
        let name = self.effects.priority_class_name.as_str();
        (!name.is_empty()).then_some(name)
    }
}

fn read_selector(member: &'static str, written: Option<LabelSelector>) -> Result<Selector, ProfileError> {
    let written = written.unwrap_or_default();
    let selector = written.to_koordinator_selector();
    selector.map_err(|source| ProfileError::Selector { member, source })
}

/// A whole number, or a text of one with a percent sign.
fn percent(written: &Value) -> Result<i32, ProfileError> {
    let is_no_percentage =
        || ProfileError::Probability("invalid type: string is not a percentage".to_owned());
    match written {
        Value::Number(number) => {
            let number = number.as_i64().and_then(|number| i32::try_from(number).ok());
            number.ok_or_else(is_no_percentage)
        }
        Value::String(text) => {
            let digits = text.strip_suffix('%').ok_or_else(is_no_percentage)?;
            digits.parse().map_err(|_error: std::num::ParseIntError| {
                let shown = |text: &str| text.chars().take(LONGEST_SHOWN).collect::<String>();
                let (text, digits) = (shown(text), shown(digits));
                ProfileError::Probability(format!(
                    "invalid value {text:?}: strconv.Atoi: parsing {digits:?}: invalid syntax"
                ))
            })
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(is_no_percentage()),
    }
}
