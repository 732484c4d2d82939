//! JSON text as a flat tree that keeps everything that Go's decoder sees: order of members, repeated members, numbers
//! as written.
//!
//! Nothing here recurses, so the nesting may be as deep as Go allows. A tree needs 16 bytes for each value, key and
//! container of the text.

mod scan;
mod text;

use std::borrow::Cow;

pub use self::scan::SyntaxError;
use self::text::unescaped;

/// Text with one JSON value.
#[derive(Debug, Clone)]
pub struct Tree<'t> {
    text: &'t str,
    /// Values in text order. The members of an object follow it, each key before its value.
    nodes: Vec<Node>,
}

/// Types of JSON values, as scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// The literal `null` in the text.
    Null,
    /// The literal `true` in the text.
    True,
    /// The literal `false` in the text.
    False,
    /// A number of any size.
    Number,
    /// A string, with or without escapes.
    Text,
    /// An array with any number of elements.
    List,
    /// An object, possibly with repeated members.
    Object,
}

/// Value in a tree, with its position.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    tree: &'a Tree<'a>,
    index: usize,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    kind: JsonKind,
    start: u32,
    end: u32,
    /// Index after the last value inside this value.
    next: u32,
}

impl JsonKind {
    /// Name of the type in Go's messages.
    pub const fn go_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::True | Self::False => "bool",
            Self::Number => "number",
            Self::Text => "string",
            Self::List => "array",
            Self::Object => "object",
        }
    }
}

impl<'t> Tree<'t> {
    /// Parses a text with exactly one JSON value, with optional blanks around it.
    ///
    /// # Errors
    /// The text is not JSON, or is nested more than 10,000 levels deep. The messages are Go's.
    pub fn parse(text: &'t str) -> Result<Self, SyntaxError> {
        let nodes = scan::scan(text)?;
        Ok(Self { text, nodes })
    }

    /// The value of the whole text.
    pub fn root(&self) -> Value<'_> {
        Value { tree: self, index: 0 }
    }

    fn node(&self, index: usize) -> Node {
        const NOTHING: Node = Node {
            kind: JsonKind::Null,
            start: 0,
            end: 0,
            next: u32::MAX,
        };
        self.nodes.get(index).copied().unwrap_or(NOTHING)
    }
}

impl<'a> Value<'a> {
    /// Type of the value, from its first character.
    pub fn kind(self) -> JsonKind {
        self.node().kind
    }

    /// Returns true for the literal `null`.
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// Returns true for an object and for `null`.
    pub fn is_object_or_null(self) -> bool {
        matches!(self.kind(), JsonKind::Object | JsonKind::Null)
    }

    /// Returns true for a list and for `null`.
    pub fn is_list_or_null(self) -> bool {
        matches!(self.kind(), JsonKind::List | JsonKind::Null)
    }

    /// The value as written in the text.
    pub fn written(self) -> &'a str {
        let Node { start, end, .. } = self.node();
        let range = place(start)..place(end);
        self.tree.text.get(range).unwrap_or_default()
    }

    /// The unescaped string; `None` for other types. Half a surrogate pair becomes U+FFFD, like in Go.
    pub fn string(self) -> Option<Cow<'a, str>> {
        let quoted = (self.kind() == JsonKind::Text).then(|| self.written())?;
        let inside = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        Some(unescaped(inside))
    }

    /// Members of an object in text order, including repeated ones; none for other types.
    pub fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Value<'a>)> {
        let mut keys = self.inside(JsonKind::Object);
        std::iter::from_fn(move || {
            let key = keys.next()?;
            Some((key.string().unwrap_or_default(), keys.next()?))
        })
    }

    /// Elements of a list; none for other types.
    pub fn elements(self) -> impl Iterator<Item = Value<'a>> {
        self.inside(JsonKind::List)
    }

    /// Values directly inside a container of this type.
    fn inside(self, kind: JsonKind) -> impl Iterator<Item = Value<'a>> {
        let node = self.node();
        let end = if node.kind == kind { place(node.next) } else { 0 };
        let mut index = self.index + 1;
        std::iter::from_fn(move || {
            let value = Value { index, ..self };
            let is_inside = index < end;
            index = place(value.node().next);
            is_inside.then_some(value)
        })
    }

    fn node(self) -> Node {
        self.tree.node(self.index)
    }
}

fn place(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
