//! Reads the text under a key by the rows of the table, as Go's decoder would: members in any case, the last of repeated
//! ones, `null` for absent.
//!
//! Go's decoder stops at the first value that it does not take; this one lists them, and what it takes is in the
//! document. A list that is there twice is replaced, where Go would keep parts of the first.

mod leaf;
mod members;
mod selector;

use headroom_domain::field::Shown;

use self::members::MemberReader;
pub(crate) use self::{
    leaf::{parse_quantity, shortened},
    members::is_same_name,
};
use super::{
    document::{Document, Entry, Strategy},
    json::{self, SyntaxError, Tree, Value},
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
            self.fault("", value, "must be a JSON object", go);
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
            let place = Place {
                base: String::new(),
                go_struct: key.go_type,
                go_path: key.go_cluster.to_owned(),
            };
            let strategy = document.cluster.get_or_insert_default();
            return self.members_of(place, strategy).top(name, value);
        };
        if !is_same_name(name, cluster) {
            return self.unknown_top(name, cluster);
        }
        let place = Place {
            base: cluster.to_owned(),
            go_struct: key.go_strategy,
            go_path: cluster.to_owned(),
        };
        if value.is_null() {
            document.cluster = None;
        } else if value.is_object_or_null() {
            let strategy = document.cluster.get_or_insert_default();
            let mut reader = self.members_of(place, strategy);
            value.members().for_each(|(name, value)| reader.top(&name, value));
        } else {
            let go_type = format!("v1alpha1.{}", key.go_strategy);
            let go = mismatch(value.kind().go_name(), key.go_type, cluster, &go_type);
            self.fault(cluster, value, "must be a JSON object", go);
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
        let base = format!("{}[{index}]", key.entries);
        let mut entry = Entry::default();
        if !value.is_object_or_null() {
            let go = mismatch(
                value.kind().go_name(),
                key.go_type,
                key.entries,
                &format!("configuration.{}", key.go_entry_type),
            );
            self.fault(&base, value, "must be a JSON object", go);
        }
        for (name, member) in value.members() {
            if is_same_name(&name, "name") {
                self.entry_name(&base, member, &mut entry);
            } else if is_same_name(&name, "nodeSelector") {
                entry.written_selector = self.selector(&format!("{base}.nodeSelector"), member);
            } else {
                let place = Place {
                    base: base.clone(),
                    go_struct: key.go_entry_type,
                    go_path: joined(key.entries, key.go_strategy),
                };
                self.members_of(place, &mut entry.strategy).top(&name, member);
            }
        }
        entry
    }

    fn entry_name(&mut self, base: &str, value: Value<'_>, entry: &mut Entry) {
        if value.is_null() {
            return;
        }
        let Key {
            entries,
            go_entry_type,
            ..
        } = self.key;
        if let Some(name) = self.text(
            &format!("{base}.name"),
            go_entry_type,
            &format!("{entries}.NodeCfgProfile.name"),
            value,
        ) {
            entry.name = name;
        }
    }

    /// A text, or a fault.
    fn text(&mut self, path: &str, go_struct: &str, go_path: &str, value: Value<'_>) -> Option<String> {
        if let Ok(text) = leaf::text(value) {
            return Some(text);
        }
        let go = mismatch(value.kind().go_name(), go_struct, go_path, "string");
        self.fault(path, value, "must be a text in quotes", go);
        None
    }

    fn fault(&mut self, path: &str, value: Value<'_>, expected: &str, go: String) {
        if self.reading.faults.len() < MOST {
            self.reading.faults.push(Fault {
                path: path.to_owned(),
                value: shown(value),
                expected: expected.to_owned(),
                go,
            });
        }
    }

    /// Lists an unknown member. What is near is searched for those alone that are listed.
    fn unknown(&mut self, base: &str, name: &str, nearest: impl FnOnce() -> Option<String>) {
        if self.reading.unknown.len() < MOST {
            self.reading.unknown.push(Unknown {
                path: joined(base, &shortened(name)),
                nearest: nearest(),
            });
        }
    }

    /// An unknown member of a document that has two: often one that belongs into the first of them.
    fn unknown_top(&mut self, name: &str, cluster: &'static str) {
        let key = self.key;
        self.unknown("", name, || {
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

/// Where the members of a strategy are, for people and for Go.
#[derive(Debug, Clone)]
struct Place {
    /// Their path below the key; empty for the document itself.
    base: String,
    go_struct: &'static str,
    go_path: String,
}

/// The value as an error shows it: a text in quotes, all else as written, both shortened.
fn shown(value: Value<'_>) -> Shown {
    let written = value.written();
    let number = || serde_json::from_str(written).ok().filter(|_| written.len() < 32);
    match value.kind() {
        json::Kind::True => Shown::Bool(true),
        json::Kind::False => Shown::Bool(false),
        json::Kind::Number => number().map_or_else(|| Shown::Text(shortened(written)), Shown::Json),
        json::Kind::Text => Shown::Text(shortened(&value.string().unwrap_or_default())),
        json::Kind::Null | json::Kind::List | json::Kind::Object => Shown::Text(shortened(written)),
    }
}

fn joined(base: &str, name: &str) -> String {
    match (base, name) {
        ("", only) | (only, "") => only.to_owned(),
        (base, name) => format!("{base}.{name}"),
    }
}
