//! Turns a draft's recorded writes into a JSON Patch (RFC 6902): `add`, `remove` and `replace`, in the order of
//! paths.
//!
//! A value that replaces another one becomes the differences inside, existing members before new ones. The child
//! `array` computes differences of arrays; their elements may also `move`.
//!
//! There are no `test` operations: the API server applies the patch to the very object it sent.

mod array;

use json_patch::{
    AddOperation, MoveOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation,
    jsonptr::PointerBuf,
};
use serde_json::{Map, Value};

use crate::admission::draft::{
    Draft, Edit, Edits, ElementEdits, Fields as _, Notes, Tree, WriteKind, Written, differ_by_member, is_deep,
};

/// The operations so far, and the place that the next one is about.
#[derive(Debug, Default)]
struct Operations {
    list: Vec<PatchOperation>,
    path: Vec<String>,
}

/// Operations that turn the object as sent into the steps' result. A member that was written and has its first value
/// again needs none.
pub fn operations(draft: &Draft<'_>) -> Patch {
    from_edits(draft.object(), draft.edits().clone())
}

/// Patch of a finished draft, and the other parts of its answer.
pub fn into_operations(draft: Draft<'_>) -> (Patch, Notes) {
    let (object, edits, notes) = draft.into_parts();
    (from_edits(&object, edits), notes)
}

fn from_edits(object: &Tree<'_>, edits: Edits) -> Patch {
    let mut operations = Operations::default();
    operations.append(object, edits);
    Patch(operations.list)
}

impl Operations {
    /// Appends the operations of recorded writes.
    fn append(&mut self, object: &Tree<'_>, edits: Edits) {
        for (name, edit) in edits {
            let before = object.get(&[&name]);
            self.path.push(name);
            match (edit, before) {
                (Edit::Set(written), None) => self.add(written.into_value()),
                (Edit::Set(written), Some(before)) => self.append_written(before, written),
                (Edit::Remove, Some(_)) => self.remove(),
                (Edit::Inside(inside), Some(below)) => self.append(below, inside),
                (Edit::Elements(elements), Some(below)) => self.append_inside_elements(below, elements),
                (Edit::Remove | Edit::Inside(_) | Edit::Elements(_), None) => {}
            }
            self.path.pop();
        }
    }

    /// Appends the operations of recorded writes inside elements.
    fn append_inside_elements(&mut self, array: &Tree<'_>, elements: ElementEdits) {
        for (at, edits) in elements {
            if let Some(element) = array.elements().get(at) {
                self.path.push(at.to_string());
                self.append(element, edits);
                self.path.pop();
            }
        }
    }

    /// Appends the operations of a written value that replaces another one.
    fn append_written(&mut self, before: &Tree<'_>, written: Written) {
        let kind = written.kind();
        let value = written.into_value();
        let has_inside = match &value {
            Value::Object(_) => true,
            Value::Array(elements) => kind == WriteKind::Rewrite || array::are_named(elements),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        // A value that cannot be read is not the one we wrote.
        if has_no_common_name(before, &value) {
            self.replace(value);
        } else if !has_inside {
            if !before.is_value(&value) {
                self.replace(value);
            }
        } else if let Ok(before) = before.to_value() {
            self.append_difference(&before, value, kind);
        } else {
            self.replace(value);
        }
    }

    /// Appends the difference of two values.
    fn append_difference(&mut self, before: &Value, after: Value, kind: WriteKind) {
        match (before, after) {
            (Value::Object(before), Value::Object(after)) if differ_by_member(before, &after, &self.path) => {
                self.append_members(before, after, kind);
            }
            (Value::Array(before), Value::Array(after)) if !is_deep(&self.path) => {
                self.append_elements(before, after, kind);
            }
            (before, after) if *before == after => {}
            (_, after) => self.replace(after),
        }
    }

    /// Appends the difference of two objects.
    fn append_members(
        &mut self,
        before: &Map<String, Value>,
        mut after: Map<String, Value>,
        kind: WriteKind,
    ) {
        for (name, before) in before {
            self.path.push(name.clone());
            match after.remove(name) {
                Some(after) => self.append_difference(before, after, kind),
                None => self.remove(),
            }
            self.path.pop();
        }
        for (name, value) in after {
            self.path.push(name);
            self.add(value);
            self.path.pop();
        }
    }

    fn add(&mut self, value: Value) {
        let path = self.pointer();
        self.list.push(PatchOperation::Add(AddOperation { path, value }));
    }

    fn replace(&mut self, value: Value) {
        let path = self.pointer();
        self.list
            .push(PatchOperation::Replace(ReplaceOperation { path, value }));
    }

    fn remove(&mut self) {
        let path = self.pointer();
        self.list.push(PatchOperation::Remove(RemoveOperation { path }));
    }

    /// Appends an operation that moves a value from another place.
    fn move_from(&mut self, from: PointerBuf) {
        let path = self.pointer();
        self.list.push(PatchOperation::Move(MoveOperation { from, path }));
    }

    fn pointer(&self) -> PointerBuf {
        PointerBuf::from_tokens(&self.path)
    }
}

/// True if both are objects with members, and with no name in common: nothing inside has to be compared then.
fn has_no_common_name(before: &Tree<'_>, after: &Value) -> bool {
    let Some(after) = after.as_object().filter(|after| !after.is_empty()) else {
        return false;
    };
    let names = before.names(&[]);
    !names.is_empty() && !names.iter().any(|name| after.contains_key(*name))
}

#[cfg(test)]
mod tests;
