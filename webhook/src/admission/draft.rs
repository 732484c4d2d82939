//! [`Draft`]: the object of an admission request, with the changes that steps have recorded on it.
//!
//! The object stays the bytes of the request. A step reads by path, which parses only the values on that path. A step
//! writes by path, which is recorded separately; [`patch`](crate::admission::patch) turns the record into operations.
//! Paths are member names, outermost first. Elements of arrays have none: a step writes an array whole, or changes
//! the parsed value around its elements with [`Draft::rewrite`].

mod compare_stored;
mod edits;
mod elements;
mod equal;
mod overlay;
mod path_value;
mod recorder;
mod rewrite;
mod rewrite_each;
mod tree;
mod written;

use std::{borrow::Cow, collections::BTreeMap};

use headroom_domain::names;
use headroom_rules::explain::{Explanation, Mark};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

#[cfg(test)]
pub(crate) use self::tree::scan::take_passed;
pub use self::{
    compare_stored::PutBackError,
    rewrite::RewriteError,
    tree::{
        Tree,
        scan::{MAX_DEPTH, MAX_OPENED, ScanError},
    },
};
pub(crate) use self::{
    edits::{Edit, Edits, ElementEdits},
    rewrite::{differ_by_member, is_deep},
    written::{WriteKind, Written},
};
use self::{path_value::PathValue, recorder::Recorder};

/// Reading by path, from an object as sent or with writes applied.
pub trait Fields {
    /// The value at `path`; `None` if absent or `null`.
    ///
    /// # Errors
    /// If the value has another shape than `T`, or holds a number that no float can represent or an escape that stands
    /// for no character.
    fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, serde_json::Error>;

    /// The text at `path`, borrowed where it has no escapes; `None` where something else is, or an escape that stands for no
    /// character.
    fn read_text(&self, path: &[&str]) -> Option<Cow<'_, str>>;

    /// The names of the members of the object at `path`; nothing for other values.
    fn names(&self, path: &[&str]) -> Vec<&str>;

    /// Names of guarded annotations among them: [`names::is_guarded`]. They are found however many members the object
    /// has, unless they alone are too many.
    fn guarded_names(&self, path: &[&str]) -> Vec<&str>;

    /// True if the value at `path` holds more values than are read at once.
    fn is_wide(&self, path: &[&str]) -> bool;

    /// Calls `look` with the elements of the array at `path`; with none for other values.
    fn with_elements<R>(&self, path: &[&str], look: impl FnOnce(&[Tree<'_>]) -> R) -> R;
}

/// An object under admission: as the request carries it, as it is stored, and the writes of the steps so far.
#[derive(Debug)]
pub struct Draft<'a> {
    object: Tree<'a>,
    old: Option<Tree<'a>>,
    writes: Writes,
    /// Recorded writes with their reasons, if a debug query may need them.
    explanation: Option<Explanation>,
}

/// Writes of the steps to a draft.
#[derive(Debug, Clone, Default)]
pub struct Writes {
    edits: Edits,
    notes: Notes,
    changes: usize,
    only_renews: bool,
}

/// Writes of the steps so far, for a rollback.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    writes: Writes,
    noted: Option<Mark>,
}

/// Parts of an answer besides the patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// Shown to the client that made the request.
    pub warnings: Vec<String>,
    /// Kept in the API server's audit log, under our entry's name and this key.
    pub audit: BTreeMap<&'static str, String>,
}

/// A write into something that has no members.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} lies inside a value that is not an object")]
pub struct WriteError {
    path: String,
}

impl<'a> Draft<'a> {
    /// A draft of `object`, replacing `old` if there is a stored one.
    pub fn new(object: Tree<'a>, old: Option<Tree<'a>>) -> Self {
        Self {
            object,
            old,
            writes: Writes::default(),
            explanation: None,
        }
    }

    /// The stored object that the request would replace; `None` on CREATE.
    pub fn old(&self) -> Option<&Tree<'a>> {
        self.old.as_ref()
    }

    /// Writes `value` at `path` and creates the objects on the path. Writing the present value records nothing.
    ///
    /// An array is one value to the patch, unless all its elements have a `name`: [`Self::rewrite`] changes elements.
    ///
    /// # Errors
    /// If something on the way is neither an object nor absent nor `null`.
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) -> Result<(), WriteError> {
        let value = value.into();
        if self.has_value(path, &value) {
            return Ok(());
        }
        self.write(path, Written::new(value, WriteKind::Set))
    }

    /// Records a write without comparing it with the present value.
    fn write(&mut self, path: &[&str], written: Written) -> Result<(), WriteError> {
        self.recorder().write(path, written)
    }

    /// Recorder for writes of the object.
    fn recorder(&mut self) -> Recorder<'_, 'a> {
        Recorder {
            tree: &self.object,
            edits: &mut self.writes.edits,
            changes: &mut self.writes.changes,
        }
    }

    /// Removes the member at `path`; does nothing if there is none.
    pub fn remove(&mut self, path: &[&str]) {
        self.recorder().remove(path);
    }

    /// Adds a warning for the client.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.writes.notes.warnings.push(text.into());
        self.writes.changes += 1;
    }

    /// Adds an annotation to the API server's audit event.
    pub fn audit(&mut self, key: &'static str, text: impl Into<String>) {
        self.writes.notes.audit.insert(key, text.into());
    }

    /// Records all later writes with their reasons.
    pub(crate) fn begin_explanation(&mut self) {
        self.explanation = Some(Explanation::default());
    }

    /// Explanation so far; recording ends.
    pub(crate) fn take_explanation(&mut self) -> Option<Explanation> {
        self.explanation.take()
    }

    /// Records a note, if explanations are recorded.
    pub(crate) fn explain(&mut self, note: impl FnOnce(&mut Explanation)) {
        if let Some(explanation) = &mut self.explanation {
            note(explanation);
        }
    }

    /// Length of the explanation so far, for a rollback.
    fn explanation_mark(&self) -> Option<Mark> {
        self.explanation.as_ref().map(Explanation::mark)
    }

    /// Drops the notes after a mark.
    fn forget_since(&mut self, mark: Option<Mark>) {
        if let (Some(explanation), Some(mark)) = (&mut self.explanation, mark) {
            explanation.drop_since(mark);
        }
    }

    /// Object as sent, the recorded writes and the other parts of the answer.
    pub(crate) fn into_parts(self) -> (Tree<'a>, Edits, Notes) {
        let Writes { edits, notes, .. } = self.writes;
        (self.object, edits, notes)
    }

    /// Parts of the answer besides the patch.
    pub fn notes(&self) -> &Notes {
        &self.writes.notes
    }

    /// Records that the result differs from the stored object only in heartbeats.
    pub fn only_renews(&mut self) {
        self.writes.only_renews = true;
    }

    /// True if the result is known to differ only in heartbeats.
    pub fn is_renewal(&self) -> bool {
        self.writes.only_renews
    }

    /// Number of writes and warnings so far: a step that moves it has acted.
    pub fn changes(&self) -> usize {
        self.writes.changes
    }

    /// Writes of the steps so far, for a rollback.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            writes: self.writes.clone(),
            noted: self.explanation_mark(),
        }
    }

    /// Drops the writes after a checkpoint.
    pub(crate) fn roll_back(&mut self, checkpoint: Checkpoint) {
        let Checkpoint { writes, noted } = checkpoint;
        self.writes = writes;
        self.forget_since(noted);
    }

    /// Object as sent.
    pub(crate) fn object(&self) -> &Tree<'a> {
        &self.object
    }

    /// Path of a value of the object, or of the stored object, that a step read and that is too wide to be opened.
    /// The step saw an empty value, so its result must not count.
    pub(crate) fn too_wide(&self) -> Option<String> {
        let stored = || Some(format!("the stored {}", self.old.as_ref()?.too_wide()?));
        self.object.too_wide().or_else(stored)
    }

    pub(crate) fn edits(&self) -> &Edits {
        &self.writes.edits
    }

    fn has_value(&self, path: &[&str], value: &Value) -> bool {
        match self.find(path) {
            PathValue::Nothing => false,
            PathValue::Written(there, _) => there == value,
            PathValue::Stored(tree) => tree.is_value(value),
            there @ (PathValue::Edited(..) | PathValue::EditedElements(..)) => {
                there.to_value().is_ok_and(|there| there == *value)
            }
        }
    }

    /// Names of members of the object at `path`: those that `stored` finds in the object as sent, and matching
    /// written ones.
    fn names_of<'d>(
        &'d self,
        path: &[&str],
        stored: fn(&'d Tree<'a>) -> Vec<&'d str>,
        is_wanted: fn(&str) -> bool,
    ) -> Vec<&'d str> {
        match self.find(path) {
            PathValue::Nothing | PathValue::EditedElements(..) => Vec::new(),
            PathValue::Written(value, _) => {
                let names = value.as_object().into_iter().flat_map(Map::keys);
                names.map(String::as_str).filter(|name| is_wanted(name)).collect()
            }
            PathValue::Stored(tree) => stored(tree),
            PathValue::Edited(tree, edits) => {
                let kept = stored(tree)
                    .into_iter()
                    .filter(|name| !matches!(edits.get(*name), Some(Edit::Remove)));
                let added = edits.iter().filter(|(name, edit)| {
                    is_wanted(name) && matches!(edit, Edit::Set(_)) && tree.get(&[name]).is_none()
                });
                kept.chain(added.map(|(name, _)| name.as_str())).collect()
            }
        }
    }

    fn find(&self, path: &[&str]) -> PathValue<'_, 'a> {
        PathValue::find(&self.object, &self.writes.edits, path)
    }
}

impl Fields for Draft<'_> {
    fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, serde_json::Error> {
        self.find(path).read()
    }

    fn read_text(&self, path: &[&str]) -> Option<Cow<'_, str>> {
        match self.find(path) {
            PathValue::Written(value, _) => value.as_str().map(Cow::Borrowed),
            PathValue::Stored(tree) => tree.read_text(&[]),
            PathValue::Nothing | PathValue::Edited(..) | PathValue::EditedElements(..) => None,
        }
    }

    fn names(&self, path: &[&str]) -> Vec<&str> {
        self.names_of(path, |tree| tree.names(&[]), |_any| true)
    }

    fn guarded_names(&self, path: &[&str]) -> Vec<&str> {
        self.names_of(path, |tree| tree.guarded_names(&[]), names::is_guarded)
    }

    fn is_wide(&self, path: &[&str]) -> bool {
        match self.find(path) {
            PathValue::Nothing | PathValue::Written(..) => false,
            PathValue::Stored(tree) | PathValue::Edited(tree, _) | PathValue::EditedElements(tree, _) => {
                tree.is_wide(&[])
            }
        }
    }

    fn with_elements<R>(&self, path: &[&str], look: impl FnOnce(&[Tree<'_>]) -> R) -> R {
        match self.find(path) {
            PathValue::Written(value, written) => {
                let text = written.text(value);
                let tree = Tree::parse(&text, 0).ok();
                look(tree.as_ref().map(Tree::elements).unwrap_or_default())
            }
            PathValue::Stored(tree) => look(tree.elements()),
            PathValue::Nothing | PathValue::Edited(..) => look(&[]),
            there @ PathValue::EditedElements(..) => {
                let text = there
                    .to_value()
                    .map(|value| value.to_string())
                    .unwrap_or_default();
                let tree = Tree::parse(&text, 0).ok();
                look(tree.as_ref().map(Tree::elements).unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NODE: &str =
        r#"{"metadata":{"name":"n1","labels":null},"status":{"allocatable":{"cpu":"4","pods":"110"}}}"#;

    fn draft() -> Draft<'static> {
        Draft::new(Tree::parse(NODE, 2).unwrap(), None)
    }

    #[test]
    fn a_step_reads_what_an_earlier_step_wrote() {
        let mut draft = draft();
        draft.set(&["metadata", "annotations", "a"], "1").unwrap();
        draft.set(&["status", "allocatable", "cpu"], "6").unwrap();
        assert_eq!(
            draft.read(&["metadata", "annotations", "a"]).unwrap(),
            Some("1".to_owned())
        );
        assert_eq!(
            draft.read(&["status", "allocatable"]).unwrap(),
            Some(json!({"cpu": "6", "pods": "110"}))
        );
        draft.remove(&["status", "allocatable", "pods"]);
        draft.set(&["status", "allocatable", "memory"], "8Gi").unwrap();
        assert_eq!(draft.names(&["status", "allocatable"]), ["cpu", "memory"]);
        assert_eq!(
            draft.read::<Value>(&["status", "allocatable", "pods"]).unwrap(),
            None
        );
    }

    #[test]
    fn absent_and_null_read_the_same_and_can_be_written_into() {
        let mut draft = draft();
        assert_eq!(draft.read::<Value>(&["metadata", "labels"]).unwrap(), None);
        assert_eq!(
            draft
                .read::<Value>(&["metadata", "annotations", "x", "y"])
                .unwrap(),
            None
        );
        draft.set(&["metadata", "labels", "zone"], "a").unwrap();
        assert_eq!(
            draft.read(&["metadata", "labels"]).unwrap(),
            Some(json!({"zone": "a"}))
        );
    }

    #[test]
    fn a_write_into_a_string_is_refused_with_its_path() {
        let error = draft().set(&["metadata", "name", "x"], 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "metadata.name.x lies inside a value that is not an object"
        );
        assert!(draft().set(&[], 1).is_err());
    }

    #[test]
    fn only_real_changes_count() {
        let mut draft = draft();
        draft.set(&["status", "allocatable", "cpu"], "4").unwrap();
        draft.remove(&["metadata", "annotations", "absent"]);
        assert_eq!(draft.changes(), 0);
        draft.set(&["status", "allocatable", "cpu"], "5").unwrap();
        draft.set(&["status", "allocatable", "cpu"], "5").unwrap();
        draft.warn("ratio above the hint");
        assert_eq!(draft.changes(), 2);
    }
}
