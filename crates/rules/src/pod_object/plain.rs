//! [`PlainPod`]: a pod as a value in memory, with the explanation of the rules' changes.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{EditFault, ObjectEdit, PodObject};
use crate::{change::ChangeError, explain::Explanation};

/// Pod as a JSON value in memory.
#[derive(Debug, Clone, Default)]
pub struct PlainPod {
    /// The pod with the writes so far.
    pub object: Value,
    /// Record of the written fields, with their writers.
    pub explanation: Explanation,
    /// Warnings that the webhook would return to the client.
    pub warnings: Vec<String>,
}

/// Reasons why a pod cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PlainError {
    /// A value does not have the type of the Kubernetes API.
    #[error("{field} cannot be read")]
    Read {
        /// Path of the value, such as `spec.containers`.
        field: String,
        /// Error of the JSON parser.
        source: serde_json::Error,
    },
    /// A value on the path is not an object.
    #[error("{field} lies inside a value that is not an object")]
    NoObject {
        /// Path of the value that cannot be stored.
        field: String,
    },
    /// A change of a container that is not an object.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl PlainPod {
    /// Creates a pod without writes and warnings.
    pub fn new(object: Value) -> Self {
        Self {
            object,
            ..Self::default()
        }
    }

    fn find(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.object, |value, name| value.get(name))
    }

    /// Stores a value at `path` and creates objects on the way. `null` removes the value.
    fn put(&mut self, path: &[&str], value: Value) -> Result<(), PlainError> {
        let no_object = || PlainError::NoObject {
            field: path.join("."),
        };
        let Some((last, parents)) = path.split_last() else {
            self.object = value;
            return Ok(());
        };
        let mut inside = &mut self.object;
        for name in parents {
            if inside.is_null() {
                *inside = Value::Object(Map::new());
            }
            let members = inside.as_object_mut().ok_or_else(no_object)?;
            inside = members.entry(*name).or_insert(Value::Null);
        }
        if inside.is_null() {
            *inside = Value::Object(Map::new());
        }
        let members = inside.as_object_mut().ok_or_else(no_object)?;
        if value.is_null() {
            members.remove(*last);
        } else {
            members.insert((*last).to_owned(), value);
        }
        Ok(())
    }
}

impl PodObject for PlainPod {
    type Error = PlainError;

    fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, PlainError> {
        let Some(value) = self.find(path) else {
            return Ok(None);
        };
        Deserialize::deserialize(value).map_err(|source| PlainError::Read {
            field: path.join("."),
            source,
        })
    }

    fn rewrite(
        &mut self,
        path: &[&str],
        change: impl FnOnce(&mut Value) -> Result<(), ChangeError>,
    ) -> Result<(), PlainError> {
        let before = self.find(path).cloned().unwrap_or(Value::Null);
        let mut after = before.clone();
        change(&mut after)?;
        if before == after {
            return Ok(());
        }
        self.put(path, after.clone())?;
        self.explanation.note_change(path, &before, &after);
        Ok(())
    }

    fn apply_each<E: ObjectEdit>(&mut self, edits: &[E]) -> Vec<Result<(), EditFault>> {
        let results = edits.iter().map(|edit| {
            let mut changed = self.object.clone();
            edit.apply(&mut changed)?;
            edit.note(&mut self.explanation, &self.object, &changed);
            self.object = changed;
            Ok(())
        });
        results.collect()
    }

    fn set(&mut self, path: &[&str], text: String) -> Result<(), PlainError> {
        self.rewrite(path, |value| {
            *value = text.into();
            Ok(())
        })
    }

    fn remove(&mut self, path: &[&str]) {
        if let Some(before) = self.find(path).cloned() {
            // An existing value can always be removed.
            let _is_removed = self.put(path, Value::Null).is_ok();
            self.explanation.note_change(path, &before, &Value::Null);
        }
    }

    fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    fn explain(&mut self, note: impl FnOnce(&mut Explanation)) {
        note(&mut self.explanation);
    }
}
