//! Errors in the fields of an object, in Kubernetes' wording: paths, kinds, messages, lists and causes.
//!
//! The messages equal those of `k8s.io/apimachinery/pkg/util/validation/field` byte for byte.

mod path;
mod quote;

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

pub use self::path::Path;
use self::quote::Quoted;

/// Kind of a field error, as in apimachinery's `field.ErrorType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The field needs a value and has none.
    Required,
    /// The value is not allowed in this place.
    Forbidden,
    /// The value does not satisfy the rule of its field.
    Invalid,
    /// The value is not one of the supported values.
    NotSupported,
    /// The value must be unique and occurs twice.
    Duplicate,
}

/// Offending value in a message, as apimachinery's `BadValue`.
#[derive(Debug, Clone, PartialEq)]
pub enum BadValue {
    /// Printed in double quotes, escaped like Go's `%q`.
    Text(String),
    /// Printed as a decimal number.
    Integer(i64),
    /// Printed as `true` or `false`.
    Bool(bool),
    /// Printed as compact JSON; `null` stands for an absent value.
    Json(serde_json::Value),
}

/// One error of one field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field}: {body}")]
pub struct Error {
    kind: Kind,
    field: String,
    /// Message without the path of the field.
    body: String,
}

/// Cause in the `details` of a Kubernetes Status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Kubernetes' reason for the kind, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// Message without the path of the field.
    pub message: String,
    /// Path of the field, such as `spec.replicas`.
    pub field: String,
}

/// Errors of one object in the order of discovery; no two have the same text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Errors {
    list: Vec<Error>,
    texts: BTreeSet<String>,
}

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::Required,
        Self::Forbidden,
        Self::Invalid,
        Self::NotSupported,
        Self::Duplicate,
    ];

    /// Words for the kind in a message.
    const fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Forbidden => "Forbidden",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
        }
    }

    /// Kubernetes' reason for the kind in a Status cause.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
        }
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for BadValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for BadValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for BadValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<serde_json::Value> for BadValue {
    fn from(value: serde_json::Value) -> Self {
        Self::Json(value)
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Json(serde_json::Value::String(text)) => Quoted(text).fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Json(value) => value.fmt(f),
        }
    }
}

impl Error {
    /// Error for a missing value at `path`; `detail` may be empty.
    pub fn required(path: &Path, detail: &str) -> Self {
        Self::new(Kind::Required, path, None, detail)
    }

    /// Error for a value that is not allowed at `path`; `detail` may be empty.
    pub fn forbidden(path: &Path, detail: &str) -> Self {
        Self::new(Kind::Forbidden, path, None, detail)
    }

    /// Error for an invalid value at `path`; `detail` may be empty.
    pub fn invalid(path: &Path, value: impl Into<BadValue>, detail: &str) -> Self {
        Self::new(Kind::Invalid, path, Some(&value.into()), detail)
    }

    /// Error for a value that is not one of `supported`; the message lists these in the given order.
    pub fn not_supported(path: &Path, value: impl Into<BadValue>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|text| Quoted(text).to_string()).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(Kind::NotSupported, path, Some(&value.into()), &detail)
    }

    /// Error for a value at `path` that occurs twice.
    pub fn duplicate(path: &Path, value: impl Into<BadValue>) -> Self {
        Self::new(Kind::Duplicate, path, Some(&value.into()), "")
    }

    fn new(kind: Kind, path: &Path, value: Option<&BadValue>, detail: &str) -> Self {
        let words = kind.words();
        let mut body = value.map_or_else(|| words.to_owned(), |value| format!("{words}: {value}"));
        if !detail.is_empty() {
            body.push_str(": ");
            body.push_str(detail);
        }
        Self {
            kind,
            field: path.to_string(),
            body,
        }
    }

    /// Kind of the error; it determines the reason of [`Self::cause`].
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Path of the field, such as `spec.replicas`.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Cause for the `details` of a Status.
    pub fn cause(&self) -> Cause {
        Cause {
            reason: self.kind.reason(),
            message: self.body.clone(),
            field: self.field.clone(),
        }
    }
}

impl Errors {
    /// Adds an error unless the list contains one with the same text.
    pub fn push(&mut self, error: Error) {
        if self.texts.insert(error.to_string()) {
            self.list.push(error);
        }
    }

    /// Returns true if the list contains no error.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns true if the list contains an error with the same text.
    pub fn contains(&self, error: &Error) -> bool {
        self.texts.contains(&error.to_string())
    }

    /// Number of errors; duplicates are not stored.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Iterates over the errors in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.list.iter()
    }

    /// Causes for the `details` of a Status, one per error.
    pub fn causes(&self) -> Vec<Cause> {
        self.iter().map(Error::cause).collect()
    }

    /// Converts the list to a result.
    ///
    /// # Errors
    /// The list itself if it contains any error.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl Extend<Error> for Errors {
    fn extend<I: IntoIterator<Item = Error>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<Error> for Errors {
    fn from_iter<I: IntoIterator<Item = Error>>(errors: I) -> Self {
        let mut list = Self::default();
        list.extend(errors);
        list
    }
}

impl IntoIterator for Errors {
    type Item = Error;
    type IntoIter = std::vec::IntoIter<Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        [error].into_iter().collect()
    }
}

impl std::error::Error for Errors {}

impl fmt::Display for Errors {
    /// Text of a single error, or `[first, second]` for several.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.list.as_slice() {
            return only.fmt(f);
        }
        let texts: Vec<String> = self.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", texts.join(", "))
    }
}

#[cfg(test)]
mod tests;
