//! Errors in the fields of an object, in Kubernetes' own words: paths, kinds, texts, lists and causes.
//!
//! The texts are those of `k8s.io/apimachinery/pkg/util/validation/field`, to the letter.

mod path;
mod quote;

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

pub use self::path::Path;
use self::quote::Quoted;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A value is missing.
    Required,
    /// The value may be right elsewhere, and is not here.
    Forbidden,
    /// The value is wrong.
    Invalid,
    /// The value is none of those that there are.
    NotSupported,
    /// The value must be unique, and is there twice.
    Duplicate,
}

/// A value that a text shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// Shown in quotes.
    Text(String),
    /// Shown as it is.
    Integer(i64),
    /// Shown as `true` or `false`.
    Bool(bool),
    /// Shown as compact JSON; `null` if it is absent.
    Json(serde_json::Value),
}

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field}: {body}")]
pub struct Error {
    kind: Kind,
    field: String,
    /// The text without the field.
    body: String,
}

/// A cause in the `details` of a Kubernetes Status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Kubernetes' word for the kind, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// What is wrong, without the field.
    pub message: String,
    /// The field's path.
    pub field: String,
}

/// What is wrong with an object, in the order in which it was found; nothing is in it twice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Errors {
    list: Vec<Error>,
    texts: BTreeSet<String>,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Required,
        Self::Forbidden,
        Self::Invalid,
        Self::NotSupported,
        Self::Duplicate,
    ];

    /// The words in a text.
    const fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Forbidden => "Forbidden",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
        }
    }

    /// Kubernetes' word for the kind in a cause.
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

impl From<&str> for Shown {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Shown {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Shown {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Shown {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<serde_json::Value> for Shown {
    fn from(value: serde_json::Value) -> Self {
        Self::Json(value)
    }
}

impl fmt::Display for Shown {
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
    /// The value at `path` is missing; `detail` may be empty.
    pub fn required(path: &Path, detail: &str) -> Self {
        Self::new(Kind::Required, path, None, detail)
    }

    /// The value at `path` may not be there; `detail` may be empty.
    pub fn forbidden(path: &Path, detail: &str) -> Self {
        Self::new(Kind::Forbidden, path, None, detail)
    }

    /// The value at `path` is wrong; `detail` may be empty.
    pub fn invalid(path: &Path, value: impl Into<Shown>, detail: &str) -> Self {
        Self::new(Kind::Invalid, path, Some(&value.into()), detail)
    }

    /// The value at `path` is none of the supported ones, which are listed in the order given.
    pub fn not_supported(path: &Path, value: impl Into<Shown>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|text| Quoted(text).to_string()).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(Kind::NotSupported, path, Some(&value.into()), &detail)
    }

    /// The value at `path` is there twice.
    pub fn duplicate(path: &Path, value: impl Into<Shown>) -> Self {
        Self::new(Kind::Duplicate, path, Some(&value.into()), "")
    }

    fn new(kind: Kind, path: &Path, value: Option<&Shown>, detail: &str) -> Self {
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

    /// What is wrong with the field.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The field's path.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The cause for the `details` of a Status.
    pub fn cause(&self) -> Cause {
        Cause {
            reason: self.kind.reason(),
            message: self.body.clone(),
            field: self.field.clone(),
        }
    }
}

impl Errors {
    /// Adds an error, unless one with the same text is in the list.
    pub fn push(&mut self, error: Error) {
        if self.texts.insert(error.to_string()) {
            self.list.push(error);
        }
    }

    /// True if nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True if an error with the same text is in the list.
    pub fn contains(&self, error: &Error) -> bool {
        self.texts.contains(&error.to_string())
    }

    /// The number of errors.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The errors in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.list.iter()
    }

    /// The causes for the `details` of a Status.
    pub fn causes(&self) -> Vec<Cause> {
        self.iter().map(Error::cause).collect()
    }

    /// The list as an outcome.
    ///
    /// # Errors
    /// The list itself, if anything is in it.
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
    /// One error as it is, several as `[first, second]`.
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
