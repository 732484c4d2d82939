//! [`Written`]: a value that a step wrote, and its text after the first access to its elements.

use std::{borrow::Cow, cell::OnceCell, ptr};

use serde_json::Value;

/// Draft method that wrote a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// [`Draft::set`](super::Draft::set) or [`Draft::put_back`](super::Draft::put_back). An array whose elements have no
    /// names is one value to them: the patch replaces it whole.
    Set,
    /// [`Draft::rewrite`](super::Draft::rewrite). The patch contains only the differences inside arrays.
    Rewrite,
}

/// A value that a step wrote.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    value: Value,
    kind: WriteKind,
    /// The value as JSON, encoded once for all readers of its elements.
    text: OnceCell<String>,
}

impl Written {
    pub(super) const fn new(value: Value, kind: WriteKind) -> Self {
        Self {
            value,
            kind,
            text: OnceCell::new(),
        }
    }

    pub(crate) const fn kind(&self) -> WriteKind {
        self.kind
    }

    pub(crate) const fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn into_value(self) -> Value {
        self.value
    }

    /// The value, to be changed.
    pub(super) fn value_mut(&mut self) -> &mut Value {
        self.text.take();
        &mut self.value
    }

    /// `part`, which is the value or something inside of it, as JSON. Only the text of the value is kept: arrays are
    /// written as values of their own, unless something around them was absent.
    pub(super) fn text(&self, part: &Value) -> Cow<'_, str> {
        if ptr::eq(part, &raw const self.value) {
            Cow::Borrowed(self.text.get_or_init(|| self.value.to_string()))
        } else {
            Cow::Owned(part.to_string())
        }
    }
}
