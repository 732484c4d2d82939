//! Finds values and members in JSON text: strict, in one pass, without recursion below the levels it opens.
//!
//! Most of a review is never read, and most of the stored object repeats the new one. So values below the opened levels
//! are only measured. A value that begins like its counterpart, the value at the same place in the object before, is
//! taken over without being scanned. Opened values take many times the memory of their text, so their number is
//! limited: of an object beyond the limit only the members with guarded names are opened.

mod lexical;
mod wide;

use std::{borrow::Cow, cell::OnceCell};

use self::lexical::{Escapes, behind_string, behind_value};
use crate::admission::draft::tree::{Inside, Member, Members, Tree};

/// Deepest nesting that is accepted: as deep as a value can be parsed later without risk to the stack. Objects of
/// the API are far shallower.
pub const MAX_DEPTH: u32 = 127;

/// Maximum number of members and elements that are opened at once, and of values that are read at once. Objects of
/// users and controllers have a few hundred in one place.
pub const MAX_OPENED: usize = 16_384;

/// Number of a counterpart's members that are compared for the next one. Both are written in the same order, and some
/// may be missing; comparing all of them would be quadratic in a wide object's members.
const LOOK_AHEAD: usize = 8;

/// The text is not JSON, or too deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// Something else than JSON has here.
    #[error("byte {at}: not JSON")]
    Syntax { at: usize },
    /// The text ends inside a value.
    #[error("the text ends inside a value")]
    End,
    #[error("byte {at}: nested deeper than {MAX_DEPTH} levels")]
    TooDeep { at: usize },
}

/// The value that is the whole of `text`, with that many levels of objects opened.
pub(super) fn document(text: &str, levels: u32) -> Result<Tree<'_>, ScanError> {
    let mut scanner = Scanner::new(text);
    scanner.space();
    let tree = scanner.value(levels, None)?;
    scanner.space();
    scanner.end()?;
    Ok(tree)
}

/// Content of the object or array that is the whole of `text`; objects in an array are opened too.
pub(super) fn inside(text: &str) -> Inside<'_> {
    let is_object = text.starts_with('{');
    let mut scanner = Scanner::of_json(text);
    let inside = if is_object {
        scanner
            .members(1, None)
            .map(|members| members.map(Inside::Members))
    } else {
        scanner.elements().map(|elements| elements.map(Inside::Elements))
    };
    // The text was scanned before, so it is JSON.
    passed(scanner.at);
    match inside {
        Ok(Some(inside)) if scanner.at == text.len() => inside,
        Ok(Some(_) | None) | Err(_) if is_object => wide::guarded(text),
        Ok(Some(_) | None) | Err(_) => Inside::TooWide,
    }
}

/// True if there are more values in `text`, which is JSON, than are read at once.
pub(super) fn is_wide(text: &str) -> bool {
    // Each value but the first follows a bracket or a comma.
    if text.len() <= MAX_OPENED || !text.starts_with(['{', '[']) {
        return false;
    }
    passed(text.len());
    let (mut rest, mut values) = (text.as_bytes(), 0);
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'"' => rest = behind_string(rest),
            b',' | b'[' | b'{' => values += 1,
            _ => {}
        }
        if values > MAX_OPENED {
            return true;
        }
    }
    false
}

/// A place in a text.
struct Scanner<'a> {
    text: &'a str,
    /// The next byte; never beyond the end.
    at: usize,
    /// Objects that are open around it.
    depth: u32,
    /// Members and elements that may still be opened.
    room: usize,
    /// The text is known to be valid JSON, so unopened parts can be skipped without parsing.
    is_json: bool,
}

impl<'a> Scanner<'a> {
    /// The start of a text.
    const fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            room: MAX_OPENED,
            is_json: false,
        }
    }

    /// The start of a text that is known to be JSON.
    const fn of_json(text: &'a str) -> Self {
        Self {
            is_json: true,
            ..Self::new(text)
        }
    }

    /// The value that begins here. An object that is too wide is measured like one that is not to be opened.
    fn value(&mut self, levels: u32, counterpart: Option<&Tree<'a>>) -> Result<Tree<'a>, ScanError> {
        let start = self.at;
        if levels > 0 && self.peek() == Some(b'{') {
            let (depth, room) = (self.depth, self.room);
            if let Some(tree) = self.open(levels, counterpart)? {
                return Ok(tree);
            }
            passed(self.at - start);
            (self.at, self.depth, self.room) = (start, depth, room);
            self.measure()?;
        } else if !self.skips(counterpart) {
            self.measure()?;
        }
        self.tree(start, OnceCell::new())
    }

    /// The object that begins here, opened; `None` if there is no room for its members.
    fn open(&mut self, levels: u32, counterpart: Option<&Tree<'a>>) -> Result<Option<Tree<'a>>, ScanError> {
        let start = self.at;
        let Some(members) = self.members(levels, counterpart)? else {
            return Ok(None);
        };
        let inside = OnceCell::new();
        if !members.list().is_empty() {
            // The cell is new, so it takes the value.
            inside.get_or_init(|| Box::new(Inside::Members(members)));
        }
        self.tree(start, inside).map(Some)
    }

    /// The value from `start` to here.
    fn tree(&self, start: usize, inside: OnceCell<Box<Inside<'a>>>) -> Result<Tree<'a>, ScanError> {
        let text = self.text.get(start..self.at).ok_or(ScanError::End)?;
        Ok(Tree { text, inside })
    }

    /// The members of the object that begins here; `None` if there is no room for them. A value without a counterpart may
    /// repeat the one before it: that is how `oldObject` follows `object`.
    fn members(
        &mut self,
        levels: u32,
        counterpart: Option<&Tree<'a>>,
    ) -> Result<Option<Members<'a>>, ScanError> {
        let mut members = Members::default();
        let mut counterparts = counterpart.map_or(&[][..], Tree::opened);
        self.enter()?;
        if self.skip_if(b'}') {
            self.depth -= 1;
            return Ok(Some(members));
        }
        loop {
            let Some(room) = self.room.checked_sub(1) else {
                return Ok(None);
            };
            self.room = room;
            let name = self.name()?;
            let before = members.list().last().map(|(_, before)| before);
            let counterpart = namesake(&name, &mut counterparts).or(before);
            let value = self.value(levels - 1, counterpart)?;
            members.push((name, value));
            self.space();
            if self.skip_if(b'}') {
                self.depth -= 1;
                return Ok(Some(members));
            }
            self.expect(b',')?;
            self.space();
        }
    }

    /// The elements of the array that begins here; `None` if there is no room for them and for the members of those
    /// that are objects.
    fn elements(&mut self) -> Result<Option<Vec<Tree<'a>>>, ScanError> {
        self.expect(b'[')?;
        self.space();
        let mut elements = Vec::new();
        if self.skip_if(b']') {
            return Ok(Some(elements));
        }
        loop {
            let Some(room) = self.room.checked_sub(1) else {
                return Ok(None);
            };
            self.room = room;
            let element = if self.peek() == Some(b'{') {
                self.open(1, None)?
            } else {
                Some(self.value(0, None)?)
            };
            let Some(element) = element else {
                return Ok(None);
            };
            elements.push(element);
            self.space();
            if self.skip_if(b']') {
                return Ok(Some(elements));
            }
            self.expect(b',')?;
            self.space();
        }
    }

    /// Enters an object, up to its first name or its end.
    fn enter(&mut self) -> Result<(), ScanError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ScanError::TooDeep { at: self.at });
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    /// A member's name, up to its value.
    fn name(&mut self) -> Result<Cow<'a, str>, ScanError> {
        let start = self.at;
        let escapes = self.member()?;
        let quoted = self.text.get(start..self.at).ok_or(ScanError::End)?;
        let name = if escapes.any {
            let unescaped: String =
                serde_json::from_str(quoted).map_err(|_half| ScanError::Syntax { at: start })?;
            Cow::Owned(unescaped)
        } else {
            Cow::Borrowed(quoted.get(1..quoted.len() - 1).unwrap_or_default())
        };
        self.colon()?;
        Ok(name)
    }

    /// Skips the quoted name of a member. Half a surrogate pair is a text that no string can contain, so no reader
    /// can ask for that member.
    fn member(&mut self) -> Result<Escapes, ScanError> {
        let start = self.at;
        self.expect(b'"')?;
        let escapes = self.string()?;
        if escapes.half {
            return Err(ScanError::Syntax { at: start });
        }
        Ok(escapes)
    }

    /// Skips the colon between a member's name and its value.
    fn colon(&mut self) -> Result<(), ScanError> {
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(())
    }

    /// Skips a value that equals its counterpart byte for byte.
    fn skips(&mut self, counterpart: Option<&Tree<'a>>) -> bool {
        let Some(counterpart) = counterpart.map(|counterpart| counterpart.text) else {
            return false;
        };
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        // A number continues with further digits: the next byte must end it.
        let is_equal = rest.starts_with(counterpart.as_bytes())
            && matches!(
                rest.get(counterpart.len()),
                Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
            );
        if is_equal {
            self.at += counterpart.len();
        }
        is_equal
    }

    /// Skips the value that begins here, of any depth, with a check of its syntax.
    fn measure(&mut self) -> Result<(), ScanError> {
        if self.is_json {
            self.skip();
            return Ok(());
        }
        // One bit for each open bracket: 1 for an object.
        let (mut open, mut depth) = (0_u128, 0_u32);
        loop {
            match self.peek().ok_or(ScanError::End)? {
                bracket @ (b'{' | b'[') => {
                    let is_object = bracket == b'{';
                    if self.depth + depth >= MAX_DEPTH {
                        return Err(ScanError::TooDeep { at: self.at });
                    }
                    self.at += 1;
                    self.space();
                    if !self.skip_if(bracket + 2) {
                        (open, depth) = (open << 1 | u128::from(is_object), depth + 1);
                        self.key(is_object)?;
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            // A value has ended: so may the brackets around it, up to the next value.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                self.space();
                let is_object = open & 1 == 1;
                if self.skip_if(b',') {
                    self.space();
                    self.key(is_object)?;
                    break;
                }
                self.expect(if is_object { b'}' } else { b']' })?;
                (open, depth) = (open >> 1, depth - 1);
            }
        }
    }

    /// Skips the value that begins here, in a text that is known to be JSON.
    fn skip(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at = self.text.len() - behind_value(rest).len();
    }

    /// Skips the name before a value, if the value is a member.
    fn key(&mut self, is_member: bool) -> Result<(), ScanError> {
        if is_member {
            self.member()?;
            self.colon()?;
        }
        Ok(())
    }

    fn end(&self) -> Result<(), ScanError> {
        passed(self.at);
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(self.syntax())
        }
    }
}

/// First of the next few members with that name; members before it are not compared again.
fn namesake<'t, 'a>(name: &str, members: &mut &'t [Member<'a>]) -> Option<&'t Tree<'a>> {
    let at = members.iter().take(LOOK_AHEAD).position(|(own, _)| own == name)?;
    let (_, found) = members.get(at)?;
    *members = members.get(at + 1..).unwrap_or_default();
    Some(found)
}

/// Called for every pass over a text: tests count them.
#[cfg(not(test))]
pub(super) const fn passed(_bytes: usize) {}
#[cfg(test)]
pub(crate) use self::tests::{passed, take_passed};

#[cfg(test)]
mod tests;
