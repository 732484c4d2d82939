//! [`Draft::rewrite`]: changes a part of a draft as a parsed value, all or nothing.

use serde_json::{Map, Value};

use super::{Draft, MAX_DEPTH, MAX_OPENED, WriteError};

/// The longest way into an object on which members are recorded and patched one by one, in bytes of names and the
/// slashes before them. Each operation repeats the way to it, and a client chooses the names.
const LONGEST_WAY: usize = 512;

/// Most members that one rewrite records one by one. Each record takes many times the memory of a short member, and
/// steps write a few dozen.
const MOST_MEMBERS: usize = 1_024;

/// Maximum number of values in a rewritten value, before and after. Both are in memory together, and each value takes
/// one or two allocations.
const MOST_VALUES: usize = MAX_OPENED / 2;

/// Path of the whole object in an error.
const WHOLE: &str = "the object";

/// A part of an object could not be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// The present value is unreadable, or has more than [`MAX_OPENED`] values.
    #[error("{path} cannot be read")]
    Read {
        /// Path, outermost member first.
        path: String,
        source: serde_json::Error,
    },
    /// The value, or the new one, is wider than any value that users or controllers write.
    #[error("{path} cannot be changed, with more than {MOST_VALUES} values")]
    TooWide {
        /// Path, outermost member first.
        path: String,
    },
    /// The new value could not be read again.
    #[error("{path} would be nested deeper than {MAX_DEPTH} levels")]
    TooDeep {
        /// Path, outermost member first.
        path: String,
    },
    /// The whole object would be something else than an object.
    #[error("the result would not be an object")]
    NoObject,
    /// An array has no such element.
    #[error("{path} has no element {at} that can be changed")]
    NoElement {
        /// The array, from the outside in.
        path: String,
        /// Index of the element.
        at: usize,
    },
    /// The object has no place for the new value.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Limit that a value exceeds.
enum Excess {
    Values,
    Levels,
}

/// Form in which a rewrite is recorded. The patch uses the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// By the members that differ.
    Members,
    /// By the new value; of the whole object, by its members.
    Whole,
}

impl Draft<'_> {
    /// Applies `change` to the value at `path`, with the writes so far, and records the differences: in objects
    /// member by member, in arrays as a new value of the array. An absent value is `null`, and a value changed to
    /// `null` becomes absent; objects on the path are created. The empty path is the whole object.
    ///
    /// It is a transaction: after a failure nothing is recorded. Repeating the same change records nothing.
    ///
    /// # Errors
    /// What `change` returns; a [`RewriteError`] if the value cannot be read, or there is no place for the new one, or
    /// either holds more than 8,192 values or is deeper than [`MAX_DEPTH`] levels.
    pub fn rewrite<T, E: From<RewriteError>>(
        &mut self,
        path: &[&str],
        change: impl FnOnce(&mut Value) -> Result<T, E>,
    ) -> Result<T, E> {
        let before = self.value(path)?;
        check_size(&before, path)?;
        let mut after = before.clone();
        let result = change(&mut after)?;
        check_size(&after, path)?;
        if path.is_empty() && !after.is_object() {
            return Err(RewriteError::NoObject.into());
        }
        let mark = self.explanation_mark();
        self.explain(|explanation| explanation.note_change(path, &before, &after));
        if let Err(failure) = self.recorder().record_change(path, &before, &mut after) {
            self.forget_since(mark);
            return Err(RewriteError::from(failure).into());
        }
        Ok(result)
    }

    /// The value at `path` with the writes so far.
    pub(super) fn value(&self, path: &[&str]) -> Result<Value, RewriteError> {
        let value = self.find(path).to_value();
        value.map_err(|source| RewriteError::read(path, source))
    }
}

impl RewriteError {
    /// Path of the part that could not be rewritten; `None` for the whole object.
    pub fn path(&self) -> Option<&str> {
        let path = match self {
            Self::Read { path, .. }
            | Self::TooWide { path }
            | Self::TooDeep { path }
            | Self::NoElement { path, .. } => path.as_str(),
            Self::NoObject | Self::Write(_) => WHOLE,
        };
        Some(path).filter(|path| *path != WHOLE)
    }

    /// Error for an unreadable value at `path`.
    pub(super) fn read(path: &[&str], source: serde_json::Error) -> Self {
        let path = field(path);
        Self::Read { path, source }
    }
}

impl Detail {
    /// Form for the difference between two values.
    pub(super) fn new(before: &Value, after: &Value) -> Self {
        if differences(before, after) > MOST_MEMBERS {
            Self::Whole
        } else {
            Self::Members
        }
    }
}

/// Number of members, however deep, that are in one of two values or differ between them.
fn differences(before: &Value, after: &Value) -> usize {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let new = after.keys().filter(|name| !before.contains_key(*name)).count();
            let old = before.iter().map(|(name, before)| match after.get(name) {
                Some(after) => differences(before, after),
                None => 1,
            });
            new + old.sum::<usize>()
        }
        (before, after) => usize::from(before != after),
    }
}

/// True if it takes operations on members to make one object of another. Where no name stays, it takes one on the whole
/// object: so where all resources of a container are renamed.
pub(crate) fn differ_by_member(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    way: &[impl AsRef<str>],
) -> bool {
    let has_common = || before.keys().any(|name| after.contains_key(name));
    !is_deep(way) && (before.len() + after.len() < 2 || has_common())
}

/// True if a path is too long for operations on its members.
pub(crate) fn is_deep(way: &[impl AsRef<str>]) -> bool {
    way.iter().map(|name| name.as_ref().len() + 1).sum::<usize>() > LONGEST_WAY
}

fn field(path: &[&str]) -> String {
    if path.is_empty() {
        WHOLE.to_owned()
    } else {
        path.join(".")
    }
}

/// Checks that the value at `path` is small enough to be read again.
pub(super) fn check_size(value: &Value, path: &[&str]) -> Result<(), RewriteError> {
    let around = u32::try_from(path.len()).unwrap_or(u32::MAX);
    let (levels, mut room) = (MAX_DEPTH.saturating_sub(around), MOST_VALUES);
    measure(value, levels, &mut room).map_err(|excess| match excess {
        Excess::Values => RewriteError::TooWide { path: field(path) },
        Excess::Levels => RewriteError::TooDeep { path: field(path) },
    })
}

/// Takes the values inside of `value` off the room, as a reader of its text counts them: an empty object or array is
/// one, too.
fn measure(value: &Value, levels: u32, room: &mut usize) -> Result<(), Excess> {
    let length = match value {
        Value::Array(elements) => elements.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(()),
    };
    let levels = levels.checked_sub(1).ok_or(Excess::Levels)?;
    *room = room.checked_sub(length.max(1)).ok_or(Excess::Values)?;
    match value {
        Value::Array(elements) => elements
            .iter()
            .try_for_each(|element| measure(element, levels, room)),
        Value::Object(members) => members
            .values()
            .try_for_each(|member| measure(member, levels, room)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
