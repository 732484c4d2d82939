//! Walks through two versions of a value in parallel and notes each field that differs.

use std::{cmp::Ordering, collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value};

use super::Explanation;

/// Maximum length of a member name in a path, in bytes; keys of labels and annotations are shorter.
const LONGEST_NAME: usize = 320;

/// The walk with its current path.
struct Walk<'e> {
    explanation: &'e mut Explanation,
    path: String,
}

/// Notes the differences at `path`, or at a member of one of its elements.
pub(super) fn note(
    explanation: &mut Explanation,
    path: &[impl AsRef<str>],
    inside: Option<(usize, &str)>,
    before: &Value,
    after: &Value,
) {
    // All walks use the same buffer.
    let mut buffer = std::mem::take(&mut explanation.path);
    buffer.clear();
    let mut walk = Walk {
        explanation,
        path: buffer,
    };
    for name in path {
        walk.push_name(name.as_ref());
    }
    if let Some((at, member)) = inside {
        walk.push_index(at);
        walk.push_name(member);
    }
    walk.values(before, after);
    let Walk { explanation, path } = walk;
    explanation.path = path;
}

impl Walk<'_> {
    fn values(&mut self, before: &Value, after: &Value) {
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.members(before, after),
            (Value::Null, Value::Object(after)) if !after.is_empty() => self.members(&Map::new(), after),
            (Value::Array(before), Value::Array(after)) => self.elements(before, after),
            (before, after) if before == after => {}
            (_, Value::Null) => self.explanation.note_removed(&self.path),
            (_, after) => self.explanation.note_written(&self.path, after),
        }
    }

    /// Both maps are sorted by name.
    fn members(&mut self, before: &Map<String, Value>, after: &Map<String, Value>) {
        let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let old = old.next_if(|_| order.is_le());
            let new = new.next_if(|_| order.is_ge());
            let Some((name, _)) = old.or(new) else {
                return;
            };
            let (old, new) = (old.map(|(_, value)| value), new.map(|(_, value)| value));
            self.inside(
                |walk| walk.push_name(name),
                old.unwrap_or(&Value::Null),
                new.unwrap_or(&Value::Null),
            );
        }
    }

    /// Compares elements by index, or by name if elements were added or removed.
    fn elements(&mut self, before: &[Value], after: &[Value]) {
        if before.len() == after.len() {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                self.inside(|walk| walk.push_index(index), before, after);
            }
            return;
        }
        let (Some(old), Some(new)) = (by_name(before), by_name(after)) else {
            self.explanation.note_written(&self.path, after);
            return;
        };
        for (name, (index, element)) in &new {
            match old.get(name) {
                Some((_, before)) => self.inside(|walk| walk.push_index(*index), before, element),
                None => self.inside(|walk| walk.push_index(*index), &Value::Bool(false), element),
            }
        }
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            self.inside(|walk| walk.push_name(name), &Value::Bool(false), &Value::Null);
        }
    }

    fn inside(&mut self, go: impl FnOnce(&mut Self), before: &Value, after: &Value) {
        let length = self.path.len();
        go(self);
        self.values(before, after);
        self.path.truncate(length);
    }

    /// A name that could be read as several names is put in brackets.
    fn push_name(&mut self, name: &str) {
        let name = name
            .get(..name.floor_char_boundary(LONGEST_NAME))
            .unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !name.is_empty() && name.bytes().all(is_plain) {
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(name);
        } else {
            self.path.extend(["[", name, "]"]);
        }
    }

    fn push_index(&mut self, index: usize) {
        // Writing to a string does not fail.
        let _is_written = write!(self.path, "[{index}]").is_ok();
    }
}

/// Elements with their indexes, by name; `None` unless every element has a unique name.
fn by_name(elements: &[Value]) -> Option<BTreeMap<&str, (usize, &Value)>> {
    let mut named = BTreeMap::new();
    for (index, element) in elements.iter().enumerate() {
        let name = element.get("name")?.as_str()?;
        if named.insert(name, (index, element)).is_some() {
            return None;
        }
    }
    Some(named)
}
