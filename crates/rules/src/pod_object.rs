//! [`PodObject`]: a pod that rules change, wherever it is: the draft of a review, or a value in memory.

mod plain;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::plain::{PlainError, PlainPod};
use crate::{
    change::{ChangeError, Changes},
    container::Containers,
    explain::Explanation,
    profile::PlannedProfile,
};

/// A pod, or what stands for one, with the writes so far. Paths are member names from the outside in.
pub trait PodObject {
    /// Why it cannot be read or written.
    type Error;

    /// The value at `path`; `None` if it is absent or `null`.
    ///
    /// # Errors
    /// It has another shape than `T`.
    fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, Self::Error>;

    /// Has `change` work on the value at `path`, all or nothing. An absent value is `null`.
    ///
    /// # Errors
    /// What `change` returns, or there is no place for the new value.
    fn rewrite(
        &mut self,
        path: &[&str],
        change: impl FnOnce(&mut Value) -> Result<(), ChangeError>,
    ) -> Result<(), Self::Error>;

    /// What its containers ask for, with the writes so far.
    ///
    /// # Errors
    /// They have another shape, or are more than anybody has.
    fn containers(&self) -> Result<Containers, Self::Error> {
        Ok(self.read(&["spec"])?.unwrap_or_default())
    }

    /// Writes what changes in its containers, which came from [`Self::containers`].
    ///
    /// # Errors
    /// There is no place for a change. The object may be half changed then, and must be dropped.
    fn change_containers(&mut self, changes: &Changes) -> Result<(), Self::Error> {
        for list in changes.lists() {
            self.rewrite(&["spec", list.name()], |value| changes.apply(list, value))?;
        }
        Ok(())
    }

    /// Applies profiles to the whole object, each all or nothing and on what those before it have left. What came of each, in
    /// their order; the text says why it left nothing.
    fn apply_each(&mut self, planned: &[PlannedProfile<'_>]) -> Vec<Result<(), String>>;

    /// Writes a text at `path`.
    ///
    /// # Errors
    /// There is no place for it.
    fn set(&mut self, path: &[&str], text: String) -> Result<(), Self::Error>;

    /// Removes the member at `path`, if it is there.
    fn remove(&mut self, path: &[&str]);

    /// Adds a warning for the client.
    fn warn(&mut self, text: String);

    /// Notes something in the explanation, if there is one.
    fn explain(&mut self, note: impl FnOnce(&mut Explanation));
}
