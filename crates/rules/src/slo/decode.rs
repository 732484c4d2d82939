//! Parses the text of a key by the rows of the table, like Go's decoder: member names in any case, the last of
//! repeated members, `null` like absent.
//!
//! Go's decoder stops at the first value that it refuses; this one lists all of them, and the document contains the
//! accepted values. A repeated list is replaced, while Go keeps parts of the first.

mod leaf;
mod members;
mod selector;
mod trail;

use std::fmt;

use headroom_domain::field::BadValue;

pub(crate) use self::{
    leaf::{parse_quantity, shortened},
    members::is_same_name,
};
use self::{members::MemberReader, trail::Trail};
use super::{
    document::{Document, Entry, Strategy},
    json::{JsonKind, SyntaxError, Tree, Value},
    nearest::nearest,
    table::Key,
};

/// Maximum number of wrong values, and of unknown members, that are listed for a key.
const MOST: usize = 32;

/// A document with the faults of its text.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The values that could be read.
    pub document: Document,
    /// Refused values, in text order; at most 32.
    pub faults: Vec<Fault>,
    /// Unknown members, in text order; at most 32.
    pub unknown: Vec<Unknown>,
}

/// A value that its member does not accept.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Path of the value below the key; empty for the document itself.
    pub path: String,
    /// The value as written, shortened.
    pub value: BadValue,
    /// Requirement for the value, such as `must be true or false`.
    pub expected: String,
    /// Message of Go's decoder about the value.
    pub go: String,
}

/// A member that no row of the table declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Path of the member below the key.
    pub path: String,
    /// Nearest known path, if one is near.
    pub nearest: Option<String>,
}

/// Parses the text of a key. `null` and an object without members mean no settings.
///
/// # Errors
/// The text is not JSON. All other faults are in the reading.
pub fn read(key: &'static Key, text: &str) -> Result<Reading, SyntaxError> {
    let tree = Tree::parse(text)?;
    let mut reader = Reader {
        key,
        reading: Reading::default(),
    };
    reader.document(tree.root());
    Ok(reader.reading)
}

/// Faults collected while a document is read.
#[derive(Debug)]
struct Reader {
    key: &'static Key,
    reading: Reading,
}

impl Reader {
    fn document(&mut self, value: Value<'_>) {
        let key = self.key;
        let mut document = Document::default();
        if key.cluster.is_none() {
            document.cluster = Some(Strategy::default());
        }
        if !value.is_object_or_null() {
            let go = format!(
                "json: cannot unmarshal {} into Go value of type configuration.{}",
                value.kind().go_name(),
                key.go_type
            );
            self.fault(&"", value, "must be a JSON object", go);
        }
        for (name, member) in value.members() {
            self.top(&mut document, &name, member);
        }
        self.reading.document = document;
    }

    /// Reads a member of the document itself.
    fn top(&mut self, document: &mut Document, name: &str, value: Value<'_>) {
        let key = self.key;
        if is_same_name(name, key.entries) {
            document.entries = self.entries(value);
            return;
        }
        let Some(cluster) = key.cluster else {
            let strategy = document.cluster.get_or_insert_default();
            return self.members_of(Place::Document, strategy).top(name, value);
        };
        if !is_same_name(name, cluster) {
            return self.unknown_top(name, cluster);
        }
        if value.is_null() {
            document.cluster = None;
        } else if value.is_object_or_null() {
            let strategy = document.cluster.get_or_insert_default();
            let mut reader = self.members_of(Place::Cluster, strategy);
            value.members().for_each(|(name, value)| reader.top(&name, value));
        } else {
            let go_type = format!("v1alpha1.{}", key.go_strategy);
            let go = mismatch(value.kind().go_name(), key.go_type, cluster, &go_type);
            self.fault(&cluster, value, "must be a JSON object", go);
        }
    }

    fn members_of<'r>(&'r mut self, place: Place, strategy: &'r mut Strategy) -> MemberReader<'r> {
        MemberReader {
            reader: self,
            place,
            strategy,
        }
    }

    fn entries(&mut self, value: Value<'_>) -> Vec<Entry> {
        let Key {
            entries,
            go_type,
            go_entry_type,
            ..
        } = self.key;
        if !value.is_list_or_null() {
            let go_element = format!("[]configuration.{go_entry_type}");
            let go = mismatch(value.kind().go_name(), go_type, entries, &go_element);
            self.fault(entries, value, "must be a list", go);
        }
        let elements = value.elements().enumerate();
        elements.map(|(index, value)| self.entry(index, value)).collect()
    }

    fn entry(&mut self, index: usize, value: Value<'_>) -> Entry {
        let key = self.key;
        let list = Trail::Top(key.entries);
        let trail = Trail::Element(&list, index);
        let mut entry = Entry::default();
        if !value.is_object_or_null() {
            let go_type = format!("configuration.{}", key.go_entry_type);
            let go = mismatch(value.kind().go_name(), key.go_type, key.entries, &go_type);
            self.fault(&trail, value, "must be a JSON object", go);
        }
        for (name, member) in value.members() {
            if is_same_name(&name, "name") {
                let name = self.optional_text(&Trail::Member(&trail, "name"), member, key.go_entry_type);
                entry.name = name.unwrap_or_default();
            } else if is_same_name(&name, "nodeSelector") {
                entry.written_selector = self.selector(&Trail::Member(&trail, "nodeSelector"), member);
            } else {
                let mut reader = self.members_of(Place::Entry(index), &mut entry.strategy);
                reader.top(&name, member);
            }
        }
        entry
    }

    /// Reads a string, or adds a fault; `null` is an empty string.
    fn optional_text(&mut self, trail: &Trail<'_>, value: Value<'_>, go_struct: &str) -> Option<String> {
        if value.is_null() {
            return Some(String::new());
        }
        let text = leaf::text(value).ok();
        if text.is_none() {
            let go = mismatch(value.kind().go_name(), go_struct, &format!("{trail:#}"), "string");
            self.fault(trail, value, "must be a string in quotes", go);
        }
        text
    }

    fn fault(&mut self, path: &dyn fmt::Display, value: Value<'_>, expected: &str, go: String) {
        if self.reading.faults.len() < MOST {
            self.reading.faults.push(Fault {
                path: path.to_string(),
                value: shown(value),
                expected: expected.to_owned(),
                go,
            });
        }
    }

    /// Lists an unknown member of an object. The nearest name is searched only for members that are listed, among the
    /// names of the enclosing object.
    fn unknown(
        &mut self,
        object: &dyn fmt::Display,
        name: &str,
        nearest: impl FnOnce(&str) -> Option<String>,
    ) {
        if self.reading.unknown.len() < MOST {
            let base = object.to_string();
            self.reading.unknown.push(Unknown {
                path: joined(&base, &shortened(name)),
                nearest: nearest(&base),
            });
        }
    }

    /// Lists an unknown member of a document with two known members: often it belongs into the first of them.
    fn unknown_top(&mut self, name: &str, cluster: &'static str) {
        let key = self.key;
        self.unknown(&"", name, |_| {
            let inner = members::names(key).find(|known| is_same_name(name, known));
            let outer = || nearest(name, [cluster, key.entries]).map(str::to_owned);
            inner.map(|known| joined(cluster, known)).or_else(outer)
        });
    }
}

/// Go's message about a member with the wrong type.
fn mismatch(found: &str, go_struct: &str, go_path: &str, go_type: &str) -> String {
    format!("json: cannot unmarshal {found} into Go struct field {go_struct}.{go_path} of type {go_type}")
}

/// Position of a strategy's members.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Members are in the document itself.
    Document,
    /// Members are in the strategy for all nodes.
    Cluster,
    /// Members are in the entry with this index.
    Entry(usize),
}

impl Place {
    /// Path of the members below the key; empty for the document itself.
    fn base(self, key: &Key) -> String {
        match self {
            Self::Document => String::new(),
            Self::Cluster => key.cluster.unwrap_or_default().to_owned(),
            Self::Entry(index) => format!("{}[{index}]", key.entries),
        }
    }

    /// Type with the members in Go, and the path to them.
    fn in_go(self, key: &Key) -> (&'static str, String) {
        match self {
            Self::Document => (key.go_type, key.go_cluster.to_owned()),
            Self::Cluster => (key.go_strategy, key.cluster.unwrap_or_default().to_owned()),
            Self::Entry(_) => (key.go_entry_type, joined(key.entries, key.go_strategy)),
        }
    }
}

/// The value for an error: a string in quotes, everything else as written, shortened.
fn shown(value: Value<'_>) -> BadValue {
    let written = value.written();
    let number = || serde_json::from_str(written).ok().filter(|_| written.len() < 32);
    match value.kind() {
        JsonKind::True => BadValue::Bool(true),
        JsonKind::False => BadValue::Bool(false),
        JsonKind::Number => number().map_or_else(|| BadValue::Text(shortened(written)), BadValue::Json),
        JsonKind::Text => BadValue::Text(shortened(&value.string().unwrap_or_default())),
        JsonKind::Null | JsonKind::List | JsonKind::Object => BadValue::Text(shortened(written)),
    }
}

fn joined(base: &str, name: &str) -> String {
    let dot = if base.is_empty() || name.is_empty() {
        ""
    } else {
        "."
    };
    [base, dot, name].concat()
}
