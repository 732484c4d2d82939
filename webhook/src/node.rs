//! What this replica knows of Node objects, and how it asks the API server to have one decided anew.

pub mod metrics;
pub mod nudge;
pub mod object;
pub mod sweep;
pub mod watch;

use std::collections::BTreeMap;

use headroom_domain::{capacity::State, hint::Note, policy::Mode};

/// The labels of a Node.
pub type Labels = BTreeMap<String, String>;

/// A Node as far as Headroom reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its UID: another Node of the same name has another one.
    pub uid: String,
    /// Its resource version, by which its states are ordered.
    pub version: u64,
    /// Its labels, by which policies select it.
    pub labels: Labels,
    /// What the capacity rules read.
    pub state: State,
    /// The mode that its annotation asks for; `None` also where that is no mode.
    pub mode: Option<Mode>,
}

impl Node {
    /// The hint that its allocatable was last computed from, if it is of this Node.
    pub fn note(&self) -> Option<Note> {
        let note: Note = self.state.annotations.hint.as_deref()?.parse().ok()?;
        (note.uid == self.uid).then_some(note)
    }
}
