//! [`Tree`]: a JSON value of a request, borrowed from its bytes and parsed only where it is read.

mod guarded;
pub(super) mod scan;

use std::{borrow::Cow, cell::OnceCell, fmt};

use headroom_domain::names;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

use self::guarded::GuardedMembers;
use super::{Fields, equal};
use crate::admission::draft::tree::scan::{MAX_OPENED, ScanError};

/// A JSON value. Reading it never changes it; writes go to a [`Draft`](super::Draft) on top of it.
pub struct Tree<'a> {
    /// The value as sent: valid JSON without surrounding white space.
    pub(super) text: &'a str,
    /// Parsed content, after the first access; empty for values without content. It is boxed, because most values are
    /// never opened.
    pub(super) inside: OnceCell<Box<Inside<'a>>>,
}

/// Content of an object or an array.
pub(super) enum Inside<'a> {
    Members(Members<'a>),
    Elements(Vec<Tree<'a>>),
    /// Of an object with more than [`MAX_OPENED`].
    Guarded(GuardedMembers<'a>),
    /// More than [`MAX_OPENED`] values. Readers see an empty value, so their result must not count:
    /// [`Tree::too_wide`] finds it.
    TooWide,
}

/// Up to this many members are searched for a name one by one; sorting them would cost more.
const FEW: usize = 32;

/// Room for the members that many objects have, so that their list seldom moves; made with the first.
const USUAL_MEMBERS: usize = 8;

/// The longest reason that the parser gives; it repeats values that a client may have made as long as a request.
const LONGEST_REASON: usize = 256;

/// Members in the order of the text. Where a name repeats, the last one counts, as in the API server.
#[derive(Default)]
pub(super) struct Members<'a> {
    list: Vec<Member<'a>>,
    /// Positions in the list by name, equal names in the order of the text; made for wide objects only, which a client
    /// can make as wide as a request may be.
    order: OnceCell<Box<[u32]>>,
}

/// A name and its value.
pub(super) type Member<'a> = (Cow<'a, str>, Tree<'a>);

impl<'a> Tree<'a> {
    /// Parses a text with this number of levels of objects opened at once. Deeper levels are opened at the first
    /// access, at the price of a second pass over them.
    ///
    /// # Errors
    /// If the text is not one JSON value, or nested too deep.
    pub fn parse(text: &'a str, levels: u32) -> Result<Self, ScanError> {
        scan::document(text, levels)
    }

    /// The elements of an array; nothing for other values.
    pub fn elements(&self) -> &[Self] {
        match self.inside() {
            Some(Inside::Elements(elements)) => elements,
            Some(Inside::Members(_) | Inside::Guarded(_) | Inside::TooWide) | None => &[],
        }
    }

    /// Shortened path of a value that was accessed although it is too wide to be opened or read at once. The reader
    /// saw an empty value there.
    pub fn too_wide(&self) -> Option<String> {
        // A text has more bytes than values: a text this short is never too wide, nor is any part of it.
        if self.text.len() <= MAX_OPENED {
            return None;
        }
        let below = |name: &str, tree: &Self| {
            let below = tree.too_wide()?;
            let name: String = name.chars().take(80).collect();
            Some(if below.is_empty() {
                name
            } else {
                format!("{name}.{below}")
            })
        };
        match self.inside.get()?.as_ref() {
            Inside::TooWide => Some(String::new()),
            Inside::Guarded(members) if members.is_missed() => Some(String::new()),
            Inside::Members(members) => members.list.iter().find_map(|(name, tree)| below(name, tree)),
            Inside::Guarded(members) => members.list().iter().find_map(|(name, tree)| below(name, tree)),
            Inside::Elements(elements) => {
                let mut elements = elements.iter().enumerate();
                elements.find_map(|(at, tree)| below(&at.to_string(), tree))
            }
        }
    }

    /// The value at `path`, one member name for each step; the value itself for an empty path.
    pub fn get(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |tree, name| tree.member(name))
    }

    /// Takes a member out of an object; `null` is nothing.
    pub fn remove(&mut self, name: &str) -> Option<Self> {
        self.members();
        let Inside::Members(members) = self.inside.get_mut()?.as_mut() else {
            return None;
        };
        let tree = members.remove(name)?;
        (!tree.is_null()).then_some(tree)
    }

    /// True for `null`, which the API treats like an absent member.
    /// Length of its text, in bytes.
    pub fn length(&self) -> usize {
        self.text.len()
    }

    pub fn is_null(&self) -> bool {
        self.text == "null"
    }

    pub fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    pub(super) fn is_array(&self) -> bool {
        self.text.starts_with('[')
    }

    /// The members in the order of the text, a name as often as it is there; nothing for other values than objects.
    pub(super) fn list(&self) -> &[Member<'a>] {
        self.members().map(Members::list).unwrap_or_default()
    }

    /// True if both are the same text; false is no proof of a difference, since one value has several JSON forms.
    pub fn is_verbatim(&self, other: &Tree<'_>) -> bool {
        self.text == other.text
    }

    /// The value, parsed whole.
    ///
    /// # Errors
    /// If it holds a number that no float can represent, or an escape that stands for no character, or more than
    /// [`MAX_OPENED`] values.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        self.parsed()
    }

    /// True if it is this value; also false if it cannot be read.
    pub fn is_value(&self, value: &Value) -> bool {
        if let Value::String(text) = value {
            return self.string().is_some_and(|own| own == *text);
        }
        if !equal::is_comparable(value) {
            return self.to_value().is_ok_and(|own| own == *value);
        }
        self.readable().is_ok() && equal::is_equal(self.text, value)
    }

    fn member(&self, name: &str) -> Option<&Self> {
        match self.inside()? {
            Inside::Members(members) => members.get(name),
            Inside::Guarded(members) => members.get(name),
            Inside::Elements(_) | Inside::TooWide => None,
        }
    }

    /// The members, opened at the first access; none for values other than objects.
    fn members(&self) -> Option<&Members<'a>> {
        match self.inside()? {
            Inside::Members(members) => Some(members),
            Inside::Guarded(members) => {
                members.miss();
                None
            }
            Inside::Elements(_) | Inside::TooWide => None,
        }
    }

    /// The members that are open already.
    pub(super) fn opened(&self) -> &[Member<'a>] {
        match self.inside.get().map(Box::as_ref) {
            Some(Inside::Members(members)) => members.list(),
            Some(Inside::Elements(_) | Inside::Guarded(_) | Inside::TooWide) | None => &[],
        }
    }

    fn inside(&self) -> Option<&Inside<'a>> {
        if !self.text.starts_with(['{', '[']) {
            return None;
        }
        Some(self.inside.get_or_init(|| Box::new(scan::inside(self.text))))
    }

    fn parsed<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.readable()?;
        serde_json::from_str(self.text).map_err(shortened)
    }

    /// The text that it is; `None` if it is something else.
    fn string(&self) -> Option<Cow<'a, str>> {
        let Some(quoted) = self.text.strip_prefix('"') else {
            // A value that is too wide is detected for every target type.
            self.readable().ok()?;
            return None;
        };
        scan::passed(self.text.len());
        let quoted = quoted.strip_suffix('"')?;
        if !quoted.contains('\\') {
            return Some(Cow::Borrowed(quoted));
        }
        let text = unescaped(quoted).or_else(|| serde_json::from_str(self.text).ok());
        text.map(Cow::Owned)
    }

    /// Called for each reading of the whole value.
    pub(super) fn readable(&self) -> Result<(), serde_json::Error> {
        if scan::is_wide(self.text) {
            // [`Tree::too_wide`] finds a reader that continues without the value; an earlier reader has seen it.
            let inside = self.inside.get_or_init(|| Box::new(Inside::TooWide));
            if let Inside::Guarded(members) = inside.as_ref() {
                members.miss();
            }
            return Err(serde_json::Error::custom(format_args!(
                "more than {MAX_OPENED} values"
            )));
        }
        scan::passed(self.text.len());
        Ok(())
    }
}

/// A text without the backslashes before quotes and backslashes, as in JSON that is an annotation; `None` where it has other
/// escapes.
fn unescaped(quoted: &str) -> Option<String> {
    let mut text = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.bytes();
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'\\' => bytes.next().filter(|escaped| matches!(escaped, b'"' | b'\\'))?,
            _ => byte,
        });
    }
    String::from_utf8(text).ok()
}

/// The error in not too many words.
fn shortened(error: serde_json::Error) -> serde_json::Error {
    let text = error.to_string();
    if text.len() <= LONGEST_REASON {
        return error;
    }
    let start: String = text.chars().take(LONGEST_REASON / 4).collect();
    let (line, column) = (error.line(), error.column());
    serde_json::Error::custom(format_args!("{start}... at line {line} column {column}"))
}

impl<'a> Members<'a> {
    /// Adds the next member of the text.
    pub(super) fn push(&mut self, member: Member<'a>) {
        self.order.take();
        if self.list.is_empty() {
            self.list.reserve(USUAL_MEMBERS);
        }
        self.list.push(member);
    }

    /// All, in the order of the text.
    pub(super) fn list(&self) -> &[Member<'a>] {
        &self.list
    }

    fn get(&self, name: &str) -> Option<&Tree<'a>> {
        self.list.get(self.position(name)?).map(|(_, tree)| tree)
    }

    fn remove(&mut self, name: &str) -> Option<Tree<'a>> {
        let position = self.position(name)?;
        self.order.take();
        // Removal by swapping would change the order of repeated names.
        Some(self.list.remove(position).1)
    }

    fn position(&self, name: &str) -> Option<usize> {
        if self.list.len() <= FEW {
            return self.list.iter().rposition(|(own, _)| own == name);
        }
        let own = |position: &u32| self.list.get(*position as usize).map(|(own, _)| own.as_ref());
        let order = self.order.get_or_init(|| {
            let mut order: Box<[u32]> = (0..).take(self.list.len()).collect();
            order.sort_by_key(own);
            order
        });
        let end = order.partition_point(|position| own(position) <= Some(name));
        let last = order.get(end.checked_sub(1)?)?;
        (own(last) == Some(name)).then_some(*last as usize)
    }
}

impl Fields for Tree<'_> {
    fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, serde_json::Error> {
        self.get(path).map_or(Ok(None), Tree::parsed)
    }

    fn read_text(&self, path: &[&str]) -> Option<Cow<'_, str>> {
        self.get(path)?.string()
    }

    fn names(&self, path: &[&str]) -> Vec<&str> {
        let members = self.get(path).map(Self::list).unwrap_or_default();
        members.iter().map(|(name, _)| name.as_ref()).collect()
    }

    fn guarded_names(&self, path: &[&str]) -> Vec<&str> {
        let members = match self.get(path).and_then(Tree::inside) {
            Some(Inside::Members(members)) => members.list(),
            Some(Inside::Guarded(members)) => members.list(),
            Some(Inside::Elements(_) | Inside::TooWide) | None => &[],
        };
        let names = members.iter().map(|(name, _)| name.as_ref());
        names.filter(|name| names::is_guarded(name)).collect()
    }

    fn is_wide(&self, path: &[&str]) -> bool {
        self.get(path).is_some_and(|tree| scan::is_wide(tree.text))
    }

    fn with_elements<R>(&self, path: &[&str], look: impl FnOnce(&[Tree<'_>]) -> R) -> R {
        look(self.get(path).map(Self::elements).unwrap_or_default())
    }
}

impl fmt::Debug for Tree<'_> {
    /// The size only: bodies of objects do not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({} bytes)", self.text.len())
    }
}

#[cfg(test)]
mod tests;
