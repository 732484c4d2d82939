//! Rewrites: changes of members and elements of a parsed value. If a rewrite fails, none of its changes apply.

use headroom_webhook::admission::draft::{Draft, RewriteError};
use serde_json::{Value, json};

use super::alphabet::{NAMES, value};

/// Maximum number of changes in a rewrite.
const CHANGES: usize = 6;
/// Maximum depth of a change.
const DEPTH: usize = 6;

pub(super) struct Rewrite {
    fails: bool,
    changes: Vec<Change>,
}

/// A change in a value: `path` has positions of members and elements.
struct Change {
    path: Vec<usize>,
    action: usize,
    position: usize,
    value: usize,
}

/// Source of a rewrite's failure.
enum Refusal {
    Draft,
    Change,
}

impl From<RewriteError> for Refusal {
    fn from(error: RewriteError) -> Self {
        assert!(!error.to_string().is_empty(), "an error without a message");
        Self::Draft
    }
}

impl Rewrite {
    /// Reads a rewrite from the input.
    pub(super) fn read(fails: bool, bytes: &mut impl Iterator<Item = usize>) -> Self {
        let mut next = || bytes.next().unwrap_or_default();
        let count = next();
        let fails = fails && count > 128;
        let changes = (0..=count % CHANGES).map(|_| {
            let length = next() % DEPTH;
            Change {
                path: (0..length).map(|_| next()).collect(),
                action: next(),
                position: next(),
                value: next(),
            }
        });
        Self {
            fails,
            changes: changes.collect(),
        }
    }

    /// Returns false if the draft refuses the rewrite, or the rewrite itself fails. The draft must be unchanged then.
    pub(super) fn record(&self, draft: &mut Draft<'_>, path: &[&str]) -> bool {
        let before = draft.changes();
        let result = draft.rewrite(path, |value| {
            *value = self.applied(value.take());
            if self.fails { Err(Refusal::Change) } else { Ok(()) }
        });
        match result {
            Ok(()) => {
                let changes = draft.changes();
                let again = draft.rewrite(path, |_| Ok::<_, Refusal>(()));
                assert!(again.is_ok(), "a rewritten value cannot be read");
                assert_eq!(draft.changes(), changes, "a rewrite without changes was recorded");
                true
            }
            Err(Refusal::Draft | Refusal::Change) => {
                assert_eq!(draft.changes(), before, "a refused rewrite was recorded");
                false
            }
        }
    }

    /// Applies all changes to the value.
    pub(super) fn applied(&self, mut value: Value) -> Value {
        for change in &self.changes {
            change.apply(&mut value);
        }
        value
    }
}

impl Change {
    /// Applies the change at its path. No effect if the path does not exist.
    fn apply(&self, mut target: &mut Value) {
        for step in &self.path {
            let next = match target {
                Value::Object(members) => {
                    let length = members.len().max(1);
                    members.values_mut().nth(step % length)
                }
                Value::Array(elements) => {
                    let length = elements.len().max(1);
                    elements.get_mut(step % length)
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
            };
            let Some(next) = next else { return };
            target = next;
        }
        match target {
            Value::Array(elements) if self.action % 8 < 6 => self.apply_to_elements(elements),
            Value::Object(members) if self.action % 8 < 4 => {
                members.insert(NAMES[self.position % NAMES.len()].to_owned(), self.written());
            }
            Value::Object(members) if self.action % 8 < 6 => {
                let name = members.keys().nth(self.position % members.len().max(1)).cloned();
                name.map(|name| members.remove(&name));
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => *target = self.written(),
        }
    }

    fn apply_to_elements(&self, elements: &mut Vec<Value>) {
        let length = elements.len();
        match self.action % 8 {
            0 | 1 => elements.insert(self.position % (length + 1), self.written()),
            2 => {
                let element = json!({"name": NAMES[self.value % NAMES.len()], "cpu": self.position});
                elements.insert(self.position % (length + 1), element);
            }
            _ if elements.is_empty() => {}
            3 => drop(elements.remove(self.position % length)),
            4 => elements.rotate_left(self.position % length),
            _ => elements.swap(self.position % length, self.value % length),
        }
    }

    /// The value to write: one of the alphabet, or elements with names.
    fn written(&self) -> Value {
        if self.value < 128 {
            return value(self.value);
        }
        let names = NAMES
            .iter()
            .cycle()
            .skip(self.value % 16)
            .step_by(1 + self.value % 4);
        let elements = names
            .take(self.value % 8)
            .map(|name| json!({"name": name, "a": self.position % 2}));
        elements.collect()
    }
}
