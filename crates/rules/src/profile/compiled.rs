//! Reads the specification of a profile and checks everything that does not depend on a pod.

use std::collections::BTreeMap;

use headroom_domain::selector::{LabelSelector, Selector, SelectorError};
use serde::Deserialize;
use serde_json::Value;

use super::{
    constant_check::{PatchFault, check_metadata, check_patch_of_pod},
    target::ProfileTarget,
};
use crate::{
    container::null_is_default,
    merge::{Patch, PatchError},
};

/// Maximum length of a value in an error, in characters.
const LONGEST_SHOWN: usize = 40;

/// Profile with valid selectors, ready to be matched.
#[derive(Debug)]
pub struct Profile {
    pub(super) namespace_selector: Selector,
    pub(super) selector: Selector,
    /// Percentage; 100 and more means always, 0 and less means never.
    pub(super) probability: i32,
    pub(super) effects: Effects,
    pub(super) patch: Option<Patch>,
    /// Paths in a Pod that it may write, computed once because every matching pod needs them.
    pub(super) pod_places: Vec<Vec<String>>,
    /// Reason why it cannot be applied to any object.
    defect: Option<ProfileError>,
    /// Reason why its patch cannot be applied to any pod.
    pod_defect: Option<ProfileError>,
}

/// Fields that a profile writes, as in its specification.
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
    /// Returns true if the effects write more than labels and annotations.
    pub(super) fn writes_spec(&self) -> bool {
        !(self.scheduler_name.is_empty() && self.priority_class_name.is_empty())
    }
}

/// Fields that select the objects of a profile.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Scope {
    namespace_selector: Option<LabelSelector>,
    selector: Option<LabelSelector>,
    probability: Option<Value>,
    patch: Option<Value>,
}

/// Reasons why a profile cannot be applied to any pod.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The specification does not match the schema.
    #[error("spec cannot be read")]
    Read(#[from] serde_json::Error),
    /// A selector in the specification is invalid.
    #[error("spec.{member} is invalid")]
    Selector {
        /// Name of the selector's field.
        member: &'static str,
        /// Error of the selector parser.
        source: SelectorError,
    },
    /// The probability is not a percentage.
    #[error("spec.probability: invalid value for IntOrString: {0}")]
    Probability(String),
    /// The priority is not a valid label value.
    #[error("spec.koordinatorPriority: {0} is negative, and a label cannot begin with a dash")]
    Priority(i32),
    /// The patch is not valid.
    #[error("spec.patch")]
    Patch(#[from] PatchError),
    /// A value would be refused by the API server in every object.
    #[error(transparent)]
    Constant(#[from] PatchFault),
}

impl Profile {
    /// Compiles a profile from its specification in JSON. A profile with valid selectors may still have a
    /// [defect](Self::defect).
    ///
    /// # Errors
    /// The specification cannot be read, or a selector is invalid.
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
            pod_defect: None,
        };
        profile.defect = profile.complete(probability, patch).err();
        let of_pod = profile.patch.as_ref().map(check_patch_of_pod);
        profile.pod_defect = of_pod.and_then(Result::err).map(ProfileError::from);
        profile.pod_places = profile.find_pod_places();
        Ok(profile)
    }

    /// Reason why the profile cannot be applied to any object of this kind.
    pub fn defect(&self, target: ProfileTarget) -> Option<&ProfileError> {
        let of_pod = self.pod_defect.as_ref();
        self.defect
            .as_ref()
            .or_else(|| of_pod.filter(|_| target == ProfileTarget::Pod))
    }

    fn complete(&mut self, probability: Option<Value>, patch: Option<Value>) -> Result<(), ProfileError> {
        if let Some(written) = probability {
            self.probability = percent(&written)?;
        }
        if let Some(patch) = patch {
            let patch = self.patch.insert(Patch::new(patch)?);
            check_metadata(patch)?;
        }
        self.effects.check()?;
        match self.effects.koordinator_priority {
            Some(priority) if priority < 0 => Err(ProfileError::Priority(priority)),
            _ => Ok(()),
        }
    }

    /// PriorityClass that must be known to apply the profile.
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

/// Parses a whole number, or a string of one with a percent sign.
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
