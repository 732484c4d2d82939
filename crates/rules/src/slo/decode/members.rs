//! Reads the members of a strategy along the tree of the key's names.

use std::borrow::Cow;

use super::{
    super::{
        document::{Given, Strategy},
        expected::expected,
        json::{JsonKind, Value},
        nearest::nearest,
        table::{
            Key, MemberRow, ValueKind,
            tree::{PathNode, Shape},
        },
    },
    Place, Reader, joined,
    leaf::{self, Mismatch},
    mismatch,
};

/// Reads members into a strategy.
#[derive(Debug)]
pub(super) struct MemberReader<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) place: Place,
    pub(super) strategy: &'r mut Strategy,
}

#[derive(Debug, Clone)]
struct At {
    node: &'static PathNode,
    /// Path of the position if it is in a list or a map; else the path is that of the node.
    element: Option<String>,
}

impl At {
    fn path(&self) -> &str {
        self.element.as_deref().unwrap_or(&self.node.path)
    }

    /// Returns the position of a member, if it is known.
    fn member(&self, name: &str) -> Option<Self> {
        let (known, node) = self.node.member(name, is_same_name)?;
        let element = self.element.as_ref().map(|path| joined(path, known));
        Some(Self { node, element })
    }
}

impl MemberReader<'_> {
    /// Reads a member of the strategy itself.
    pub(super) fn top(&mut self, name: &str, value: Value<'_>) {
        if let Some(node) = self.reader.key.tree() {
            self.member(&At { node, element: None }, name, value);
        }
    }

    fn member(&mut self, object: &At, name: &str, value: Value<'_>) {
        match object.member(name) {
            Some(at) => self.value(&at, value),
            None => self.unknown(object, name),
        }
    }

    /// Reads the value at a position, including the values in an object, a list or a map.
    fn value(&mut self, at: &At, value: Value<'_>) {
        let At { node, element } = at;
        match (&node.shape, value.kind()) {
            // Go passes the text to the type here, which treats `null` as a zero duration.
            (Shape::Value(field), JsonKind::Null) if field.kind == ValueKind::Duration => {
                self.leaf(at, field, value);
            }
            (_, JsonKind::Null) => self.strategy.remove(node, element.as_deref()),
            (Shape::Value(field), _) => self.leaf(at, field, value),
            (Shape::List(inner), JsonKind::List) => {
                self.strategy.remove(node, element.as_deref());
                for (index, value) in value.elements().enumerate() {
                    let element = Some(format!("{}[{index}]", at.path()));
                    // The list is empty so far, so no value must be dropped.
                    if !value.is_null() || matches!(&inner.shape, Shape::Value(_)) {
                        self.value(&At { node: inner, element }, value);
                    }
                }
            }
            (Shape::List(_), _) => self.container_fault(at, value, "must be a list"),
            (Shape::Map(inner), JsonKind::Object) => {
                for (name, value) in value.members() {
                    let element = Some(format!("{}[{name}]", at.path()));
                    self.value(&At { node: inner, element }, value);
                }
            }
            (Shape::Object(_), JsonKind::Object) => {
                for (name, value) in value.members() {
                    self.member(at, &name, value);
                }
            }
            (Shape::Map(_) | Shape::Object(_), _) => {
                self.container_fault(at, value, "must be a JSON object");
            }
        }
    }

    fn leaf(&mut self, at: &At, field: &'static MemberRow, value: Value<'_>) {
        let At { node, element } = at;
        let mismatch = match leaf::read(field.kind, value) {
            Ok(content) => {
                let given = Given {
                    class: node.class,
                    field,
                    content,
                };
                let path = match element {
                    Some(path) => Cow::Owned(path.clone()),
                    None => Cow::Borrowed(node.path.as_str()),
                };
                return self.strategy.set(node.rank, path, given);
            }
            Err(mismatch) => mismatch,
        };
        let go = match mismatch {
            Mismatch::Type(found, go_type) => self.mismatch(&found, at, go_type),
            Mismatch::Refused(reason) => reason,
        };
        let path = joined(&self.base(), at.path());
        self.reader.fault(&path, value, &expected(field), go);
    }

    fn container_fault(&mut self, at: &At, value: Value<'_>, expected: &str) {
        let go = self.mismatch(value.kind().go_name(), at, at.node.go_name);
        let path = joined(&self.base(), at.path());
        self.reader.fault(&path, value, expected, go);
    }

    fn mismatch(&self, found: &str, at: &At, go_type: &str) -> String {
        let (go_struct, go_path) = self.place.in_go(self.reader.key);
        mismatch(found, go_struct, &joined(&go_path, at.path()), go_type)
    }

    fn base(&self) -> String {
        self.place.base(self.reader.key)
    }

    fn unknown(&mut self, object: &At, name: &str) {
        let base = joined(&self.base(), object.path());
        let key = self.reader.key;
        self.reader.unknown(&base, name, |base| {
            let known = object.node.members().iter().map(|(known, _)| *known);
            let is_document = object.path().is_empty() && key.cluster.is_none();
            let known = known.chain(is_document.then_some(key.entries));
            nearest(name, known).map(|near| joined(base, near))
        });
    }
}

/// Names of the members of a strategy.
pub(super) fn names(key: &Key) -> impl Iterator<Item = &'static str> {
    let members = key.tree().into_iter().flat_map(PathNode::members);
    members.map(|(name, _)| *name)
}

/// Returns true if Go treats the names as equal: ignoring case, including two non-ASCII letters that fold to ASCII.
pub(crate) fn is_same_name(name: &str, known: &str) -> bool {
    let fold = |character: char| match character {
        'ſ' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(known.chars().map(fold))
}
