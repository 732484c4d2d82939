//! The condition that a selector sets for the label of one key.

use std::collections::BTreeSet;

/// Which states of a label are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelChoice {
    /// True if the object may lack the label.
    pub(super) may_be_absent: bool,
    /// The values that it may have where it is there.
    values: LabelValues,
}

/// A set of values.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelValues {
    /// These.
    OneOf(BTreeSet<String>),
    /// All but these.
    AllBut(BTreeSet<String>),
}

impl LabelChoice {
    /// No condition.
    pub(super) fn anything() -> Self {
        Self::not_in(BTreeSet::new())
    }

    /// The label has one of these values.
    pub(super) fn is_in(values: BTreeSet<String>) -> Self {
        Self {
            may_be_absent: false,
            values: LabelValues::OneOf(values),
        }
    }

    /// The label is absent or has another value.
    pub(super) fn not_in(values: BTreeSet<String>) -> Self {
        Self {
            may_be_absent: true,
            values: LabelValues::AllBut(values),
        }
    }

    /// The label is there.
    pub(super) fn exists() -> Self {
        Self {
            may_be_absent: false,
            values: LabelValues::AllBut(BTreeSet::new()),
        }
    }

    /// The label is absent.
    pub(super) fn does_not_exist() -> Self {
        Self {
            may_be_absent: true,
            values: LabelValues::OneOf(BTreeSet::new()),
        }
    }

    /// True if the label may have that value, or for `None` be absent.
    pub(super) fn allows(&self, value: Option<&str>) -> bool {
        match (value, &self.values) {
            (None, _) => self.may_be_absent,
            (Some(value), LabelValues::OneOf(values)) => values.contains(value),
            (Some(value), LabelValues::AllBut(values)) => !values.contains(value),
        }
    }

    /// The values that a label that is there may have; `None` if these are not listed.
    pub(super) fn listed(&self) -> Option<&BTreeSet<String>> {
        match &self.values {
            LabelValues::OneOf(values) => Some(values),
            LabelValues::AllBut(_) => None,
        }
    }

    /// The values that a label that is there may not have; `None` if the others are listed.
    pub(super) fn excluded(&self) -> Option<&BTreeSet<String>> {
        match &self.values {
            LabelValues::OneOf(_) => None,
            LabelValues::AllBut(values) => Some(values),
        }
    }

    /// Drops what `other` does not allow.
    pub(super) fn narrow(&mut self, other: Self) {
        self.may_be_absent &= other.may_be_absent;
        self.values.narrow(other.values);
    }

    /// A value that both allow: the first of those listed, or else an invented one.
    pub(super) fn common_value(&self, other: &Self) -> Option<String> {
        use LabelValues::{AllBut, OneOf};
        match (&self.values, &other.values) {
            (OneOf(one), OneOf(other)) => one.intersection(other).next().cloned(),
            (OneOf(listed), AllBut(excluded)) | (AllBut(excluded), OneOf(listed)) => {
                listed.difference(excluded).next().cloned()
            }
            (AllBut(one), AllBut(other)) => Some(invented(one, other)),
        }
    }
}

impl LabelValues {
    /// Costs no more than `other` has values, so that a selector costs what is written in it.
    fn narrow(&mut self, other: Self) {
        match (self, other) {
            (Self::OneOf(listed), Self::OneOf(mut other)) => {
                if other.len() < listed.len() {
                    std::mem::swap(listed, &mut other);
                }
                listed.retain(|value| other.contains(value));
            }
            (Self::OneOf(listed), Self::AllBut(excluded)) => {
                for value in excluded {
                    listed.remove(&value);
                }
            }
            (values @ Self::AllBut(_), Self::OneOf(mut listed)) => {
                listed.retain(|value| values.contains(value));
                *values = Self::OneOf(listed);
            }
            (Self::AllBut(excluded), Self::AllBut(other)) => excluded.extend(other),
        }
    }

    fn contains(&self, value: &str) -> bool {
        match self {
            Self::OneOf(values) => values.contains(value),
            Self::AllBut(values) => !values.contains(value),
        }
    }
}

/// A valid value of a label that is in neither set.
fn invented(one: &BTreeSet<String>, other: &BTreeSet<String>) -> String {
    let most = one.len().saturating_add(other.len());
    let mut names = (0..=most).map(|number| format!("any{number}"));
    let is_free = |name: &String| !one.contains(name) && !other.contains(name);
    // There are more names than values in both sets.
    names.find(is_free).unwrap_or_default()
}
