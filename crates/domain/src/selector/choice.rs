//! [`LabelChoice`]: condition of a selector on the label of one key.

use std::collections::BTreeSet;

/// Allowed states of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelChoice {
    /// True if the object may lack the label.
    pub(super) may_be_absent: bool,
    /// Allowed values if the label is present.
    values: LabelValues,
}

/// Finite set of values, or its complement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelValues {
    /// Only these values are in it.
    OneOf(BTreeSet<String>),
    /// All values except these are in it.
    AllBut(BTreeSet<String>),
}

impl LabelChoice {
    /// Allows every state of the label.
    pub(super) fn anything() -> Self {
        Self::not_in(BTreeSet::new())
    }

    /// Requires one of these values.
    pub(super) fn is_in(values: BTreeSet<String>) -> Self {
        Self {
            may_be_absent: false,
            values: LabelValues::OneOf(values),
        }
    }

    /// Requires absence or another value.
    pub(super) fn not_in(values: BTreeSet<String>) -> Self {
        Self {
            may_be_absent: true,
            values: LabelValues::AllBut(values),
        }
    }

    /// Requires the label with any value.
    pub(super) fn exists() -> Self {
        Self {
            may_be_absent: false,
            values: LabelValues::AllBut(BTreeSet::new()),
        }
    }

    /// Requires absence of the label.
    pub(super) fn does_not_exist() -> Self {
        Self {
            may_be_absent: true,
            values: LabelValues::OneOf(BTreeSet::new()),
        }
    }

    /// Returns true if the label may have that value, or for `None` be absent.
    pub(super) fn allows(&self, value: Option<&str>) -> bool {
        match (value, &self.values) {
            (None, _) => self.may_be_absent,
            (Some(value), LabelValues::OneOf(values)) => values.contains(value),
            (Some(value), LabelValues::AllBut(values)) => !values.contains(value),
        }
    }

    /// Allowed values of a present label; `None` if the condition lists excluded values instead.
    pub(super) fn listed(&self) -> Option<&BTreeSet<String>> {
        match &self.values {
            LabelValues::OneOf(values) => Some(values),
            LabelValues::AllBut(_) => None,
        }
    }

    /// Excluded values of a present label; `None` if the condition lists allowed values instead.
    pub(super) fn excluded(&self) -> Option<&BTreeSet<String>> {
        match &self.values {
            LabelValues::OneOf(_) => None,
            LabelValues::AllBut(values) => Some(values),
        }
    }

    /// Removes the states that `other` does not allow.
    pub(super) fn narrow(&mut self, other: Self) {
        self.may_be_absent &= other.may_be_absent;
        self.values.narrow(other.values);
    }

    /// A value that both allow: the first listed one, otherwise an invented one.
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
    /// Takes at most O(number of values of `other`), so a selector costs as much as is written in it.
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

/// A valid label value that is in neither set.
fn invented(one: &BTreeSet<String>, other: &BTreeSet<String>) -> String {
    let most = one.len().saturating_add(other.len());
    let mut names = (0..=most).map(|number| format!("any{number}"));
    let is_free = |name: &String| !one.contains(name) && !other.contains(name);
    // There is one more name than values in both sets, so one is free.
    names.find(is_free).unwrap_or_default()
}
