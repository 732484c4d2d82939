//! Writes, recorded in a draft as by a step, and applied to a parsed object for comparison.

use headroom_webhook::admission::draft::Draft;
use serde_json::{Value, json};

use super::{
    alphabet::{NAMES, value},
    rewrite::Rewrite,
};

/// Maximum number of writes in one input.
const WRITES: usize = 16;
/// Maximum number of names in a path.
const DEPTH: usize = 4;
/// Minimum first byte of a rewrite.
const REWRITE: usize = 128;

pub(super) enum Write {
    Set(Vec<&'static str>, Value),
    Remove(Vec<&'static str>),
    Rewrite(Vec<&'static str>, Rewrite),
}

/// Reads writes from the input.
pub(super) fn writes(script: &[u8]) -> Vec<Write> {
    let mut bytes = script.iter().copied().map(usize::from);
    let mut writes = Vec::new();
    while let Some(kind) = bytes.next().filter(|_| writes.len() < WRITES) {
        let is_rewrite = kind >= REWRITE;
        // An empty path, the whole object, is valid only for a rewrite.
        let length = kind / 2 % DEPTH + usize::from(!is_rewrite);
        let path: Vec<_> = bytes
            .by_ref()
            .take(length)
            .filter_map(|byte| NAMES.get(byte % NAMES.len()).copied())
            .collect();
        if path.is_empty() && !is_rewrite {
            break;
        }
        writes.push(if is_rewrite {
            Write::Rewrite(path, Rewrite::read(kind % 2 == 0, &mut bytes))
        } else if kind % 2 == 0 {
            Write::Remove(path)
        } else {
            Write::Set(path, value(bytes.next().unwrap_or_default()))
        });
    }
    writes
}

impl Write {
    /// Returns false if the draft refuses the write.
    pub(super) fn record(&self, draft: &mut Draft<'_>) -> bool {
        match self {
            Self::Set(path, value) => draft.set(path, value.clone()).is_ok(),
            Self::Remove(path) => {
                draft.remove(path);
                true
            }
            Self::Rewrite(path, rewrite) => rewrite.record(draft, path),
        }
    }

    /// Applies the write to a parsed object.
    pub(super) fn apply(&self, object: &mut Value) {
        match self {
            Self::Set(path, value) => set(object, path, value.clone()),
            Self::Remove(path) => remove(object, path),
            Self::Rewrite(path, rewrite) => {
                let before = path.iter().try_fold(&*object, |value, name| value.get(*name));
                let before = before.cloned().unwrap_or_default();
                let after = rewrite.applied(before.clone());
                if after == before {
                    return;
                }
                if after.is_null() {
                    remove(object, path);
                } else {
                    set(object, path, after);
                }
            }
        }
    }
}

fn set(object: &mut Value, path: &[&str], value: Value) {
    let target = path.iter().fold(object, |value, name| {
        if value.is_null() {
            *value = json!({});
        }
        let members = value.as_object_mut().expect("the draft treated it as an object");
        members.entry(*name).or_insert(Value::Null)
    });
    *target = value;
}

fn remove(object: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let parent = parents
        .iter()
        .try_fold(object, |value, name| value.get_mut(*name));
    if let Some(members) = parent.and_then(Value::as_object_mut) {
        members.remove(*last);
    }
}
