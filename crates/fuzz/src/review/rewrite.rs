//! Rewrites: changes in the members and elements of a parsed value, of which none count if the last one fails.

use headroom_webhook::admission::draft::{Draft, RewriteError};
use serde_json::{Value, json};

use super::alphabet::{NAMES, value};

/// Changes of one rewrite.
const CHANGES: usize = 6;
/// Members and elements on the way to a change.
const DEPTH: usize = 6;

/// Changes, made one after the other.
pub(super) struct Rewrite {
    fails: bool,
    changes: Vec<Change>,
}

/// A change inside of a value: where, by positions, and what.
struct Change {
    way: Vec<usize>,
    act: usize,
    place: usize,
    value: usize,
}

/// Why a rewrite came to nothing.
enum Refusal {
    OfTheDraft,
    OfTheChange,
}

impl From<RewriteError> for Refusal {
    fn from(error: RewriteError) -> Self {
        assert!(!error.to_string().is_empty(), "an error without words");
        Self::OfTheDraft
    }
}

impl Rewrite {
    /// A rewrite as the bytes say.
    pub(super) fn read(fails: bool, bytes: &mut impl Iterator<Item = usize>) -> Self {
        let mut next = || bytes.next().unwrap_or_default();
        let count = next();
        let fails = fails && count > 128;
        let changes = (0..=count % CHANGES).map(|_| {
            let length = next() % DEPTH;
            Change {
                way: (0..length).map(|_| next()).collect(),
                act: next(),
                place: next(),
                value: next(),
            }
        });
        Self {
            fails,
            changes: changes.collect(),
        }
    }

    /// False if the draft refuses it, or if it is one that fails; then nothing may have come of it.
    pub(super) fn record(&self, draft: &mut Draft<'_>, path: &[&str]) -> bool {
        let before = draft.changes();
        let result = draft.rewrite(path, |value| {
            *value = self.applied(value.take());
            if self.fails {
                Err(Refusal::OfTheChange)
            } else {
                Ok(())
            }
        });
        match result {
            Ok(()) => {
                let changes = draft.changes();
                let again = draft.rewrite(path, |_| Ok::<_, Refusal>(()));
                assert!(again.is_ok(), "what was rewritten cannot be read");
                assert_eq!(draft.changes(), changes, "the same again is something new");
                true
            }
            Err(Refusal::OfTheDraft | Refusal::OfTheChange) => {
                assert_eq!(draft.changes(), before, "recorded and refused");
                false
            }
        }
    }

    /// The value with the changes made.
    pub(super) fn applied(&self, mut value: Value) -> Value {
        for change in &self.changes {
            change.apply(&mut value);
        }
        value
    }
}

impl Change {
    /// Makes the change where the way ends; nothing if there is none for such a value.
    fn apply(&self, mut target: &mut Value) {
        for step in &self.way {
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
            Value::Array(elements) if self.act % 8 < 6 => self.apply_to_elements(elements),
            Value::Object(members) if self.act % 8 < 4 => {
                members.insert(NAMES[self.place % NAMES.len()].to_owned(), self.written());
            }
            Value::Object(members) if self.act % 8 < 6 => {
                let name = members.keys().nth(self.place % members.len().max(1)).cloned();
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
        match self.act % 8 {
            0 | 1 => elements.insert(self.place % (length + 1), self.written()),
            2 => {
                let element = json!({"name": NAMES[self.value % NAMES.len()], "cpu": self.place});
                elements.insert(self.place % (length + 1), element);
            }
            _ if elements.is_empty() => {}
            3 => drop(elements.remove(self.place % length)),
            4 => elements.rotate_left(self.place % length),
            _ => elements.swap(self.place % length, self.value % length),
        }
    }

    /// A value to be written: one that steps set, or elements with names.
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
            .map(|name| json!({"name": name, "a": self.place % 2}));
        elements.collect()
    }
}
