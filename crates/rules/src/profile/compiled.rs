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

/// A profile whose pods can be told.
#[derive(Debug)]
pub struct Profile {
    pub(super) namespace_selector: Selector,
    pub(super) selector: Selector,
    /// In percent; anything from 100 on is always, anything up to 0 never.
    pub(super) probability: i32,
    pub(super) effects: Effects,
    pub(super) patch: Option<Patch>,
    /// Where it may write in a Pod: this is asked for each one that it is for.
    pub(super) pod_places: Vec<Vec<String>>,
    /// What keeps it from being applied to any pod.
    defect: Option<ProfileError>,
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

impl Effects {
    /// True if they write more than labels and annotations.
    pub(super) fn writes_spec(&self) -> bool {
        !(self.scheduler_name.is_empty() && self.priority_class_name.is_empty())
    }
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

/// Why a profile cannot be applied to any pod.
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
    /// The profile of a specification, which is JSON. One that can be read, and whose pods can be told, may still have a
    /// [defect](Self::defect).
    ///
    /// # Errors
    /// It cannot be read, or a selector in it is invalid.
    pub fn compile(spec: &str) -> Result<Self, ProfileError> {
        let effects: Effects = serde_json::from_str(spec)?;
        let Scope {
            namespace_selector,
            selector,
            probability,
            patch,
        } = serde_json::from_str(spec)?;
        let mut profile = Self {
            namespace_selector: read_selector("namespaceSelector", namespace_selector)?,
            selector: read_selector("selector", selector)?,
            probability: 100,
            effects,
            patch: None,
            pod_places: Vec::new(),
            defect: None,
        };
        profile.defect = profile.complete(probability, patch).err();
        profile.pod_places = profile.find_pod_places();
        Ok(profile)
    }

    /// What keeps it from being applied, whatever the pod.
    pub const fn defect(&self) -> Option<&ProfileError> {
        self.defect.as_ref()
    }

    fn complete(&mut self, probability: Option<Value>, patch: Option<Value>) -> Result<(), ProfileError> {
        if let Some(written) = probability {
            self.probability = percent(&written)?;
        }
        if let Some(patch) = patch {
            self.patch = Some(Patch::new(patch)?);
        }
        match self.effects.koordinator_priority {
            Some(priority) if priority < 0 => Err(ProfileError::Priority(priority)),
            _ => Ok(()),
        }
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
