//! Reads the text under a key by the rows of the table, as Go's decoder would: members in any case, the last of repeated
//! ones, `null` for absent.
//!
//! Go's decoder stops at the first value that it does not take; this one lists them, and what it takes is in the
//! document. A list that is there twice is replaced, where Go would keep parts of the first.

mod leaf;
mod members;
mod selector;
mod trail;

use std::fmt;

use headroom_domain::field::Shown;

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

/// How many wrong values, and how many unknown members, are listed for a key.
const MOST: usize = 32;

/// A document, and what was wrong with its text.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// What could be read.
    pub document: Document,
    /// Values that were not, in the order of the text; the first 32.
    pub faults: Vec<Fault>,
    /// Members that nobody knows, in the order of the text; the first 32.
    pub unknown: Vec<Unknown>,
}

/// A value is not what its member takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Where it is, below the key; empty for the document itself.
    pub path: String,
    /// The value, shortened.
    pub value: Shown,
    /// What it must be.
    pub expected: String,
    /// What Go's decoder says of it.
    pub go: String,
}

/// A member is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Where it is, below the key.
    pub path: String,
    /// The nearest known path, if one is near.
    pub nearest: Option<String>,
}

/// Reads the text under a key. `null` and an object without members say nothing.
///
/// # Errors
/// The text is not JSON. Whatever else is wrong is in the reading.
pub fn read(key: &'static Key, text: &str) -> Result<Reading, SyntaxError> {
    let tree = Tree::parse(text)?;
    let mut reader = Reader {
        key,
        reading: Reading::default(),
    };
    reader.document(tree.root());
    Ok(reader.reading)
}

/// What is wrong, while a document is read.
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

    /// A text, or a fault; `null` is an empty one.
    fn optional_text(&mut self, trail: &Trail<'_>, value: Value<'_>, go_struct: &str) -> Option<String> {
        if value.is_null() {
            return Some(String::new());
        }
        let text = leaf::text(value).ok();
        if text.is_none() {
            let go = mismatch(value.kind().go_name(), go_struct, &format!("{trail:#}"), "string");
            self.fault(trail, value, "must be a text in quotes", go);
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

    /// Lists an unknown member of an object. What is near is searched for those alone that are listed; it is told where
    /// the object is.
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

    /// An unknown member of a document that has two: often one that belongs into the first of them.
    fn unknown_top(&mut self, name: &str, cluster: &'static str) {
        let key = self.key;
        self.unknown(&"", name, |_| {
            let inner = members::names(key).find(|known| is_same_name(name, known));
            let outer = || nearest(name, [cluster, key.entries]).map(str::to_owned);
            inner.map(|known| joined(cluster, known)).or_else(outer)
        });
    }
}

/// Go's words for a value of another type in a member.
fn mismatch(found: &str, go_struct: &str, go_path: &str, go_type: &str) -> String {
    format!("json: cannot unmarshal {found} into Go struct field {go_struct}.{go_path} of type {go_type}")
}

/// Where the members of a strategy are.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the document itself.
    Document,
    /// Where it says what holds for all nodes.
    Cluster,
    /// In an entry.
    Entry(usize),
}

impl Place {
    /// Their path below the key; empty for the document itself.
    fn base(self, key: &Key) -> String {
        match self {
            Self::Document => String::new(),
            Self::Cluster => key.cluster.unwrap_or_default().to_owned(),
            Self::Entry(index) => format!("{}[{index}]", key.entries),
        }
    }

    /// The type that has them in Go, and the path to them.
    fn in_go(self, key: &Key) -> (&'static str, String) {
        match self {
            Self::Document => (key.go_type, key.go_cluster.to_owned()),
            Self::Cluster => (key.go_strategy, key.cluster.unwrap_or_default().to_owned()),
            Self::Entry(_) => (key.go_entry_type, joined(key.entries, key.go_strategy)),
        }
    }
}

/// The value as an error shows it: a text in quotes, all else as written, both shortened.
fn shown(value: Value<'_>) -> Shown {
    let written = value.written();
    let number = || serde_json::from_str(written).ok().filter(|_| written.len() < 32);
    match value.kind() {
        JsonKind::True => Shown::Bool(true),
        JsonKind::False => Shown::Bool(false),
        JsonKind::Number => number().map_or_else(|| Shown::Text(shortened(written)), Shown::Json),
        JsonKind::Text => Shown::Text(shortened(&value.string().unwrap_or_default())),
        JsonKind::Null | JsonKind::List | JsonKind::Object => Shown::Text(shortened(written)),
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
