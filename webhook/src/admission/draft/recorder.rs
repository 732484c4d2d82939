//! [`Recorder`]: records writes of one object, which is that of a review or an element of a list in it.

use serde_json::{Map, Value};

use super::{
    Edits, PathValue, Tree, WriteError,
    edits::{place, record_removal},
    rewrite::{Detail, differ_by_member},
    written::{WriteKind, Written},
};

/// Object as sent, and its recorded changes.
pub(super) struct Recorder<'r, 'a> {
    pub(super) tree: &'r Tree<'a>,
    pub(super) edits: &'r mut Edits,
    pub(super) changes: &'r mut usize,
}

impl Recorder<'_, '_> {
    /// Records a write without comparing it with the present value.
    pub(super) fn write(&mut self, path: &[&str], written: Written) -> Result<(), WriteError> {
        place(self.edits, self.tree, path, written).ok_or_else(|| WriteError { path: path.join(".") })?;
        *self.changes += 1;
        Ok(())
    }

    /// Removes the member at `path`; does nothing if there is none.
    pub(super) fn remove(&mut self, path: &[&str]) {
        if !matches!(PathValue::find(self.tree, self.edits, path), PathValue::Nothing) {
            record_removal(self.edits, self.tree, path);
            *self.changes += 1;
        }
    }

    /// Records a changed value at `path`. A value changed to `null` is removed.
    pub(super) fn record_change(
        &mut self,
        path: &[&str],
        before: &Value,
        after: &mut Value,
    ) -> Result<(), WriteError> {
        if after.is_null() && !before.is_null() {
            self.remove(path);
            return Ok(());
        }
        let (mut way, detail) = (path.to_vec(), Detail::new(before, after));
        self.record(&mut way, before, after, detail)
    }

    /// Records the change of the member at `path`, or of the object if there are no names.
    pub(super) fn record_part<'v>(
        &mut self,
        path: &mut Vec<&'v str>,
        before: Option<&'v Value>,
        after: Option<&'v mut Value>,
        detail: Detail,
    ) -> Result<(), WriteError> {
        match (before, after) {
            (Some(before), Some(after)) => self.record(path, before, after, detail),
            (None, Some(after)) => self.write(path, Written::new(after.take(), WriteKind::Rewrite)),
            (Some(_), None) => {
                self.remove(path);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Records that `before`, which is at `path`, becomes `after`. If there is no place for that, the first write finds
    /// out: all others go into the objects of `before`.
    fn record<'v>(
        &mut self,
        path: &mut Vec<&'v str>,
        before: &'v Value,
        after: &'v mut Value,
        detail: Detail,
    ) -> Result<(), WriteError> {
        let is_by_member = match (before, &*after) {
            (Value::Object(before), Value::Object(after)) => {
                path.is_empty() || detail == Detail::Members && differ_by_member(before, after, path)
            }
            (_, _) => false,
        };
        match (before, after) {
            (Value::Object(before), after) if is_by_member => {
                self.record_members(path, before, after, detail)
            }
            (before, after) if *before == *after => Ok(()),
            (_, after) => self.write(path, Written::new(after.take(), WriteKind::Rewrite)),
        }
    }

    fn record_members<'v>(
        &mut self,
        path: &mut Vec<&'v str>,
        before: &'v Map<String, Value>,
        after: &'v mut Value,
        detail: Detail,
    ) -> Result<(), WriteError> {
        let Value::Object(after) = after else {
            return Ok(());
        };
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            path.push(name);
            self.remove(path);
            path.pop();
        }
        for (name, value) in after {
            path.push(name);
            self.record_part(path, before.get(name), Some(value), detail)?;
            path.pop();
        }
        Ok(())
    }
}
