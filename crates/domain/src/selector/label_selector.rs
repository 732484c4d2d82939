//! [`LabelSelector`]: a label selector in a Kubernetes object, converted by Kubernetes' or by Koordinator's rules.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::{
    Labels, Selector,
    choice::LabelChoice,
    syntax::{key_faults, value_faults},
};
use crate::{
    field::{BadValue, Error, Errors, Path},
    nullable,
};

/// Most wrong values of one requirement in an error; a selector of a megabyte may have hundreds of thousands.
const MOST_FAULTS: usize = 16;

/// Label selector as written. Unknown members are ignored; `null` counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be present with these values.
    #[serde(deserialize_with = "nullable::or_default")]
    pub match_labels: Labels,
    /// Further requirements; all must hold.
    #[serde(deserialize_with = "nullable::or_default")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement as written, without any check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LabelSelectorRequirement {
    /// Key of the label, with its prefix.
    #[serde(deserialize_with = "nullable::or_default")]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub operator: String,
    /// Values for `In` and `NotIn`; empty for the others.
    #[serde(deserialize_with = "nullable::or_default")]
    pub values: Vec<String>,
}

/// Kubernetes cannot convert the selector. The messages are Kubernetes' own, with at most 16 wrong values of a
/// requirement.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is not one of the four.
    #[error("{} is not a valid label selector operator", BadValue::from(.0.as_str()))]
    Operator(String),
    /// A key or a value is not valid.
    #[error("{0}")]
    Requirement(Errors),
}

impl From<Errors> for SelectorError {
    fn from(errors: Errors) -> Self {
        Self::Requirement(errors)
    }
}

impl LabelSelector {
    /// Converts by Kubernetes' rules; an empty selector matches everything.
    ///
    /// # Errors
    /// If an operator is unknown, `In` or `NotIn` has no values, `Exists` or `DoesNotExist` has values, or a key or
    /// value is not valid in a label. The error names the first faulty requirement: `matchLabels` by key, then
    /// `matchExpressions`.
    pub fn to_selector(&self) -> Result<Selector, SelectorError> {
        let mut selector = Selector::default();
        for (key, value) in &self.match_labels {
            let mut errors = key_errors(key);
            add_values(&mut errors, key, std::slice::from_ref(value));
            errors.into_result()?;
            selector.require(key.clone(), equal(value));
        }
        for requirement in &self.match_expressions {
            selector.require(requirement.key.clone(), requirement.to_choice()?);
        }
        Ok(selector)
    }

    /// Converts by Koordinator's rules: without expressions, labels are compared as written and need not be valid
    /// labels. Otherwise like [`Self::to_selector`].
    ///
    /// # Errors
    /// If there are expressions and Kubernetes cannot convert the selector.
    pub fn to_koordinator_selector(&self) -> Result<Selector, SelectorError> {
        if !self.match_expressions.is_empty() {
            return self.to_selector();
        }
        let mut selector = Selector::default();
        for (key, value) in &self.match_labels {
            selector.require(key.clone(), equal(value));
        }
        Ok(selector)
    }
}

fn equal(value: &str) -> LabelChoice {
    LabelChoice::is_in(BTreeSet::from([value.to_owned()]))
}

impl LabelSelectorRequirement {
    fn to_choice(&self) -> Result<LabelChoice, SelectorError> {
        let Self {
            key,
            operator,
            values,
        } = self;
        let listed = || values.iter().cloned().collect();
        let (choice, fault) = match operator.as_str() {
            "In" => (LabelChoice::is_in(listed()), self.missing_values()),
            "NotIn" => (LabelChoice::not_in(listed()), self.missing_values()),
            "Exists" => (LabelChoice::exists(), self.needless_values()),
            "DoesNotExist" => (LabelChoice::does_not_exist(), self.needless_values()),
            _ => return Err(SelectorError::Operator(operator.clone())),
        };
        let mut errors = key_errors(key);
        if let Some(error) = fault {
            errors.push(error);
        }
        add_values(&mut errors, key, values);
        errors.into_result()?;
        Ok(choice)
    }

    fn missing_values(&self) -> Option<Error> {
        let detail = "for 'in', 'notin' operators, values set can't be empty";
        let error = || Error::invalid(&Path::new("values"), Value::Null, detail);
        self.values.is_empty().then(error)
    }

    fn needless_values(&self) -> Option<Error> {
        let detail = "values set must be empty for exists and does not exist";
        let error = || Error::invalid(&Path::new("values"), Value::from(self.values.clone()), detail);
        (!self.values.is_empty()).then(error)
    }
}

fn key_errors(key: &str) -> Errors {
    let mut errors = Errors::default();
    if let Some(fault) = key_faults(key) {
        errors.push(Error::invalid(&Path::new("key"), key, &fault));
    }
    errors
}

/// Adds the errors in the values of a requirement, at most [`MOST_FAULTS`].
fn add_values(errors: &mut Errors, key: &str, values: &[String]) {
    let path = Path::new("values");
    let found = values.iter().enumerate().filter_map(|(index, value)| {
        let fault = value_faults(value)?;
        Some(Error::invalid(
            &path.index(index).key(key),
            value.as_str(),
            &fault,
        ))
    });
    for error in found.take(MOST_FAULTS) {
        errors.push(error);
    }
}
