//! [`PodObject`]: a pod that rules read and change, stored in the draft of a review or as a value in memory.

mod plain;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::plain::{PlainError, PlainPod};
use crate::{
    change::{ChangeError, Changes},
    container::Containers,
    explain::Explanation,
};

/// Reason why an edit does not apply to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditFault {
    /// Path of the field that does not fit.
    pub field: String,
    /// Reason in words.
    pub reason: String,
    /// Cause of the fault, as far as the edit itself shows it.
    pub kind: FaultKind,
}

/// Causes of an [`EditFault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The edit does not apply to any other object either.
    Edit,
    /// Object and edits together are too large.
    Size,
    /// The content of the object matters, or that of other edits.
    Content,
}

/// Edit of a whole object, such as a profile.
pub trait ObjectEdit {
    /// Applies the edit. After an error the object may be partly changed and must be dropped.
    ///
    /// # Errors
    /// The reason, if the edit does not apply.
    fn apply(&self, object: &mut Value) -> Result<(), EditFault>;

    /// Paths that [`Self::apply`] reads and may write, as member names from the outside in. The list is sorted: a path
    /// follows the paths that enclose it.
    fn places(&self) -> &[Vec<String>];

    /// Notes the difference between the object before and after the edit.
    fn note(&self, explanation: &mut Explanation, before: &Value, after: &Value);
}

/// A pod, or a Reservation in its place, with the writes so far. Paths are member names from the outside in.
pub trait PodObject {
    /// Error of a failed read or write.
    type Error;

    /// Reads the value at `path`; `None` if it is absent or `null`.
    ///
    /// # Errors
    /// The value does not have the type `T`.
    fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, Self::Error>;

    /// Applies `change` to the value at `path`, completely or not at all. An absent value is passed as `null`.
    ///
    /// # Errors
    /// The error of `change`, or the new value cannot be stored at `path`.
    fn rewrite(
        &mut self,
        path: &[&str],
        change: impl FnOnce(&mut Value) -> Result<(), ChangeError>,
    ) -> Result<(), Self::Error>;

    /// Returns the view of its containers, with the writes so far.
    ///
    /// # Errors
    /// The containers have another type, or there are too many of them.
    fn containers(&self) -> Result<Containers, Self::Error> {
        Ok(self.read(&["spec"])?.unwrap_or_default())
    }

    /// Writes changes of containers that came from [`Self::containers`].
    ///
    /// # Errors
    /// A change cannot be stored. The object may be partly changed then, and must be dropped.
    fn change_containers(&mut self, changes: &Changes) -> Result<(), Self::Error> {
        for list in changes.lists() {
            self.rewrite(&["spec", list.name()], |value| changes.apply(list, value))?;
        }
        Ok(())
    }

    /// Applies edits to the whole object in order. Each applies completely or not at all, on top of the edits before it.
    /// Returns one result per edit; an error is the reason why that edit changed nothing.
    fn apply_each<E: ObjectEdit>(&mut self, edits: &[E]) -> Vec<Result<(), EditFault>>;

    /// Writes a string at `path`.
    ///
    /// # Errors
    /// The string cannot be stored at `path`.
    fn set(&mut self, path: &[&str], text: String) -> Result<(), Self::Error>;

    /// Removes the member at `path`, if it exists.
    fn remove(&mut self, path: &[&str]);

    /// Adds an admission warning for the client.
    fn warn(&mut self, text: String);

    /// Passes the explanation to `note`, if there is one.
    fn explain(&mut self, note: impl FnOnce(&mut Explanation));
}
