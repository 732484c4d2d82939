//! JSON text as a flat tree that keeps what Go's decoder sees: the order of members, repeated ones, numbers as written.
//!
//! Nothing here recurses, so a text may be nested as deeply as Go lets it be. A tree takes 16 bytes for each value, key and
//! container of the text.

mod scan;
mod text;

use std::borrow::Cow;

pub use self::scan::SyntaxError;
use self::text::unescaped;

/// A text that is one JSON value.
#[derive(Debug, Clone)]
pub struct Tree<'t> {
    text: &'t str,
    /// Values in the order of the text. The members of an object follow it, each key before its value.
    nodes: Vec<Node>,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`.
    Null,
    /// `true`.
    True,
    /// `false`.
    False,
    /// A number of any size.
    Number,
    /// A text.
    Text,
    /// A list.
    List,
    /// An object.
    Object,
}

/// A value of a tree.
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
    /// The place behind everything that is in this value.
    next: u32,
}

impl JsonKind {
    /// Go's word for it.
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
    /// Reads a text that is one JSON value with nothing but blanks around it.
    ///
    /// # Errors
    /// It is anything else, or is nested more than 10,000 deep. The texts are Go's.
    pub fn parse(text: &'t str) -> Result<Self, SyntaxError> {
        let nodes = scan::scan(text)?;
        Ok(Self { text, nodes })
    }

    /// The value itself.
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
    /// What it is.
    pub fn kind(self) -> JsonKind {
        self.node().kind
    }

    /// True for `null`.
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// True for an object and for `null`.
    pub fn is_object_or_null(self) -> bool {
        matches!(self.kind(), JsonKind::Object | JsonKind::Null)
    }

    /// True for a list and for `null`.
    pub fn is_list_or_null(self) -> bool {
        matches!(self.kind(), JsonKind::List | JsonKind::Null)
    }

    /// The value as it is written.
    pub fn written(self) -> &'a str {
        let Node { start, end, .. } = self.node();
        let range = place(start)..place(end);
        self.tree.text.get(range).unwrap_or_default()
    }

    /// The text that it is; `None` if it is none. Half a surrogate pair reads as U+FFFD, as in Go.
    pub fn string(self) -> Option<Cow<'a, str>> {
        let quoted = (self.kind() == JsonKind::Text).then(|| self.written())?;
        let inside = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        Some(unescaped(inside))
    }

    /// The members of an object in their order, repeated ones among them; nothing for any other value.
    pub fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Value<'a>)> {
        let mut keys = self.inside(JsonKind::Object);
        std::iter::from_fn(move || {
            let key = keys.next()?;
            Some((key.string().unwrap_or_default(), keys.next()?))
        })
    }

    /// The elements of a list; nothing for any other value.
    pub fn elements(self) -> impl Iterator<Item = Value<'a>> {
        self.inside(JsonKind::List)
    }

    /// What is in a container of that kind, one after the other.
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
