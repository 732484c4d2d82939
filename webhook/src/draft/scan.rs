//! Finds values and members in JSON text: strict, in one pass, without recursion below the levels it opens.
//!
//! Reviews are mostly text that nobody looks at, and the stored object is mostly the new one again. So values below
//! the opened levels are only measured, and a value that begins like its twin, the value at the same place in the
//! object before, is taken over without being scanned.

use std::{borrow::Cow, cell::OnceCell};

use super::tree::{Member, Members, Tree};

/// Deepest nesting that is accepted: as deep as a value can be parsed later without risk to the stack. Objects of
/// the API are far shallower.
pub const MAX_DEPTH: u32 = 127;

/// Room for the members that most objects have, so that their list seldom moves.
const USUAL_MEMBERS: usize = 16;

/// How many of a twin's members are looked at for the next one. Both are written in the same order, and a few of the
/// twin's may be missing; a search through all of them would take the square of a wide object's members.
const LOOK_AHEAD: usize = 8;

/// The text is not JSON, or too deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// Something else than JSON has here.
    #[error("byte {at}: not JSON")]
    Syntax {
        /// Where, counted from 0.
        at: usize,
    },
    /// The text ends inside a value.
    #[error("the text ends inside a value")]
    End,
    /// Brackets in brackets.
    #[error("byte {at}: nested deeper than {MAX_DEPTH} levels")]
    TooDeep {
        /// Where, counted from 0.
        at: usize,
    },
}

/// The value that is the whole of `text`, with that many levels of objects opened.
pub(super) fn document(text: &str, levels: u32) -> Result<Tree<'_>, ScanError> {
    let mut scanner = Scanner {
        text,
        at: 0,
        depth: 0,
    };
    scanner.space();
    let tree = scanner.value(levels, None)?;
    scanner.space();
    if scanner.at == text.len() {
        Ok(tree)
    } else {
        Err(scanner.syntax())
    }
}

/// The elements of the array that is the whole of `text`.
pub(super) fn elements(text: &str) -> Result<Vec<Tree<'_>>, ScanError> {
    let mut scanner = Scanner {
        text,
        at: 0,
        depth: 0,
    };
    scanner.space();
    scanner.expect(b'[')?;
    scanner.space();
    let mut elements = Vec::with_capacity(USUAL_MEMBERS);
    if !scanner.takes(b']') {
        loop {
            elements.push(scanner.value(1, None)?);
            scanner.space();
            if scanner.takes(b']') {
                break;
            }
            scanner.expect(b',')?;
            scanner.space();
        }
    }
    scanner.space();
    if scanner.at == text.len() {
        Ok(elements)
    } else {
        Err(scanner.syntax())
    }
}

/// A place in a text.
struct Scanner<'a> {
    text: &'a str,
    /// The next byte; never beyond the end.
    at: usize,
    /// Objects that are open around it.
    depth: u32,
}

impl<'a> Scanner<'a> {
    /// The value that begins here.
    fn value(&mut self, levels: u32, twin: Option<&Tree<'a>>) -> Result<Tree<'a>, ScanError> {
        let start = self.at;
        let members = OnceCell::new();
        if levels > 0 && self.peek() == Some(b'{') {
            let own = self.members(levels, twin)?;
            // The cell is new, so it takes the value.
            members.get_or_init(|| Some(own));
        } else if !self.skips(twin) {
            self.measure()?;
        }
        let text = self.text.get(start..self.at).ok_or(ScanError::End)?;
        Ok(Tree {
            text,
            members,
            elements: OnceCell::new(),
        })
    }

    /// The members of the object that begins here. A value without a twin may repeat the one before it: that is how
    /// `oldObject` follows `object`.
    fn members(&mut self, levels: u32, twin: Option<&Tree<'a>>) -> Result<Members<'a>, ScanError> {
        let mut members = Members::with_capacity(USUAL_MEMBERS);
        let mut twins = twin.and_then(Tree::members).map_or(&[][..], Members::list);
        self.enter()?;
        if self.takes(b'}') {
            self.depth -= 1;
            return Ok(members);
        }
        loop {
            let name = self.name()?;
            let before = members.list().last().map(|(_, before)| before);
            let twin = namesake(&name, &mut twins).or(before);
            let value = self.value(levels - 1, twin)?;
            members.push((name, value));
            self.space();
            if self.takes(b'}') {
                self.depth -= 1;
                return Ok(members);
            }
            self.expect(b',')?;
            self.space();
        }
    }

    /// Goes into an object, up to its first name or its end.
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
        self.expect(b'"')?;
        let has_escapes = self.string()?;
        let quoted = self.text.get(start..self.at).ok_or(ScanError::End)?;
        let name = if has_escapes {
            // A lone surrogate is text that no string can hold, so nobody could ask for that member.
            let unescaped: String =
                serde_json::from_str(quoted).map_err(|_surrogate| ScanError::Syntax { at: start })?;
            Cow::Owned(unescaped)
        } else {
            Cow::Borrowed(quoted.get(1..quoted.len() - 1).unwrap_or_default())
        };
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(name)
    }

    /// Goes past a value that is its twin to the byte.
    fn skips(&mut self, twin: Option<&Tree<'a>>) -> bool {
        let Some(twin) = twin.map(|twin| twin.text) else {
            return false;
        };
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        // A number goes on as long as there are digits: what follows must end it.
        let is_twin = rest.starts_with(twin.as_bytes())
            && matches!(
                rest.get(twin.len()),
                Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
            );
        if is_twin {
            self.at += twin.len();
        }
        is_twin
    }

    /// Goes past the value that begins here, however deep.
    fn measure(&mut self) -> Result<(), ScanError> {
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
                    if !self.takes(bracket + 2) {
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
                if self.takes(b',') {
                    self.space();
                    self.key(is_object)?;
                    break;
                }
                self.expect(if is_object { b'}' } else { b']' })?;
                (open, depth) = (open >> 1, depth - 1);
            }
        }
    }

    /// Goes past the name before a value, if the value is a member.
    fn key(&mut self, is_member: bool) -> Result<(), ScanError> {
        if is_member {
            self.name()?;
        }
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.string().map(drop)
            }
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), ScanError> {
        word.bytes().try_for_each(|byte| self.expect(byte))
    }

    fn number(&mut self) -> Result<(), ScanError> {
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        if self.takes(b'.') {
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            let _is_signed = self.takes(b'+') || self.takes(b'-');
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err(self.syntax())
        }
    }

    /// Goes past the rest of a string, its opening quote behind; true if there are escapes in it.
    fn string(&mut self) -> Result<bool, ScanError> {
        let mut has_escapes = false;
        loop {
            self.at += plain(self.text.as_bytes().get(self.at..).unwrap_or_default());
            match self.peek().ok_or(ScanError::End)? {
                b'"' => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                b'\\' => {
                    self.escape()?;
                    has_escapes = true;
                }
                _ => return Err(self.syntax()),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        self.at += 1;
        let kind = self.peek().ok_or(ScanError::End)?;
        let digits = match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 0,
            b'u' => 4,
            _ => return Err(self.syntax()),
        };
        self.at += 1;
        for _ in 0..digits {
            if !self.peek().ok_or(ScanError::End)?.is_ascii_hexdigit() {
                return Err(self.syntax());
            }
            self.at += 1;
        }
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes past `byte` if it is the next.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), ScanError> {
        if self.takes(byte) {
            Ok(())
        } else {
            Err(self.syntax())
        }
    }

    /// The error for what stands here.
    fn syntax(&self) -> ScanError {
        if self.at < self.text.len() {
            ScanError::Syntax { at: self.at }
        } else {
            ScanError::End
        }
    }
}

/// The first of the next few members that has that name; what comes before it will not be looked at again.
fn namesake<'t, 'a>(name: &str, members: &mut &'t [Member<'a>]) -> Option<&'t Tree<'a>> {
    let at = members.iter().take(LOOK_AHEAD).position(|(own, _)| own == name)?;
    let (_, found) = members.get(at)?;
    *members = members.get(at + 1..).unwrap_or_default();
    Some(found)
}

/// How far it is to the next quote, backslash or control character, eight bytes at a time.
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    // The highest bit of each byte that was zero, and perhaps of bytes above the lowest such.
    let zeros = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    let (blocks, tail) = text.as_chunks::<8>();
    for (index, block) in blocks.iter().enumerate() {
        let block = u64::from_le_bytes(*block);
        let controls = block.wrapping_sub(ONES * 0x20) & !block;
        let quotes = zeros(block ^ (ONES * u64::from(b'"')));
        let escapes = zeros(block ^ (ONES * u64::from(b'\\')));
        let marks = (controls | quotes | escapes) & (ONES << 7);
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &&u8| **byte != b'"' && **byte != b'\\' && **byte >= 0x20;
    text.len() - tail.len() + tail.iter().take_while(is_plain).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde::de::IgnoredAny;

    use super::*;
    use crate::draft::Fields as _;

    /// What the library says about the same text.
    fn is_json(text: &str) -> bool {
        serde_json::from_str::<IgnoredAny>(text).is_ok()
    }

    #[rstest]
    #[case("")]
    #[case("  ")]
    #[case("nul")]
    #[case("truex")]
    #[case("01")]
    #[case("-")]
    #[case("1.")]
    #[case(".5")]
    #[case("1e")]
    #[case("1e+")]
    #[case("+1")]
    #[case("1 2")]
    #[case("\"")]
    #[case("\"\\")]
    #[case("\"\\x\"")]
    #[case("\"\\u12g4\"")]
    #[case("\"tab\there\"")]
    #[case("\"null\u{0}\"")]
    #[case("[1,]")]
    #[case("[,1]")]
    #[case("[1 2]")]
    #[case("[1}")]
    #[case("{\"a\":1]")]
    #[case("{\"a\" 1}")]
    #[case("{a:1}")]
    #[case("{\"a\":1,}")]
    #[case("{\"a\":1,\"b\"}")]
    #[case("{1:2}")]
    #[case("\u{feff}{}")]
    fn what_is_not_json_is_refused_on_every_level(#[case] text: &str) {
        assert!(!is_json(text));
        assert!(document(text, 0).is_err() && document(text, 3).is_err());
        let inside = format!("{{\"a\":{text}}}");
        assert!(
            document(&inside, 0).is_err() && document(&inside, 1).is_err() && document(&inside, 3).is_err()
        );
    }

    #[test]
    fn an_error_says_where() {
        assert_eq!(
            document("{\"a\":[1,x]}", 2).unwrap_err(),
            ScanError::Syntax { at: 8 }
        );
        assert_eq!(document("{\"a\":[1,", 2).unwrap_err(), ScanError::End);
        assert_eq!(ScanError::Syntax { at: 8 }.to_string(), "byte 8: not JSON");
    }

    #[rstest]
    #[case("[", "]")]
    #[case("{\"a\":", "}")]
    fn nesting_up_to_the_limit_is_taken_and_one_more_refused(#[case] open: &str, #[case] close: &str) {
        let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        for levels in [0, 1, 4] {
            let text = nested(MAX_DEPTH as usize);
            assert!(document(&text, levels).unwrap().to_value().is_ok());
            let error = document(&nested(MAX_DEPTH as usize + 1), levels)
                .map(|_| ())
                .unwrap_err();
            assert!(matches!(error, ScanError::TooDeep { .. }));
            assert!(document(&open.repeat(1_000_000), levels).is_err());
        }
    }

    #[rstest]
    #[case::longer_number(r#"{"a":{"n":1},"b":{"n":12}}"#)]
    #[case::longer_fraction(r#"{"a":{"n":1},"b":{"n":1.5}}"#)]
    #[case::same(r#"{"a":{"n":[1,{"x":"y"}]},"b":{"n":[1,{"x":"y"}]}}"#)]
    #[case::longer_object(r#"{"a":{"n":{}},"b":{"n":{"x":1}}}"#)]
    #[case::prefix_of_a_string(r#"{"a":{"n":"1"},"b":{"n":"1\"2"}}"#)]
    fn a_value_is_taken_for_its_twin_only_if_it_is(#[case] text: &str) {
        let expected: serde_json::Value = serde_json::from_str(text).unwrap();
        let tree = document(text, 3).unwrap();
        let found = tree.get(&["b", "n"]).unwrap().to_value().unwrap();
        assert_eq!(&found, expected.pointer("/b/n").unwrap());
    }

    #[test]
    fn a_twin_followed_by_rubbish_is_refused() {
        assert!(document(r#"{"a":{"n":1},"b":{"n":1x}}"#, 3).is_err());
        assert!(document(r#"{"a":{"n":{}},"b":{"n":{}1}}"#, 3).is_err());
    }

    #[test]
    fn a_name_that_no_string_can_hold_is_refused_on_every_level() {
        for text in [
            r#"{"\ud800":1}"#,
            r#"{"a":{"b":{"\ud800x":1}}}"#,
            r#"[{"\udc00":1}]"#,
        ] {
            for levels in 0..4 {
                assert!(
                    matches!(document(text, levels), Err(ScanError::Syntax { .. })),
                    "{text}"
                );
            }
        }
        let pair = document(r#"{"a":{"\ud83d\ude00":1}}"#, 1).unwrap();
        assert!(pair.get(&["a", "\u{1f600}"]).is_some());
    }

    /// Would take minutes if each member was looked for among all of its twin's.
    #[test]
    fn wide_objects_are_read_in_passing() {
        let wide = |names: &mut dyn Iterator<Item = u32>| {
            let members: Vec<String> = names.map(|name| format!("\"{name:06}\":{name}")).collect();
            format!("{{{}}}", members.join(","))
        };
        let (up, down) = (wide(&mut (0..200_000)), wide(&mut (0..200_000).rev()));
        let text = format!("{{\"object\":{up},\"oldObject\":{down}}}");
        let tree = document(&text, 2).unwrap();
        assert_eq!(tree.get(&["oldObject"]).unwrap().names(&[]).len(), 200_000);
    }

    /// Text that is nearly JSON: pieces of it, in any order.
    fn any_text() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\\",
            "\\u00e9",
            "\"a\"",
            "\"a\":",
            "{\"a\":1}",
            "1",
            "-",
            "0",
            ".5",
            "e3",
            "true",
            "null",
            " ",
            "\n",
            "\u{1}",
            "é",
            "abcdefgh",
            "[]",
            "{}",
        ]);
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn exactly_json_is_accepted(text in any_text(), levels in 0_u32..4) {
            prop_assert_eq!(document(&text, levels).is_ok(), is_json(&text), "{:?}", text);
        }

        #[test]
        fn strings_end_where_the_library_says(text in "[ -~é\u{0}-\u{1f}]{0,40}") {
            let quoted = format!("\"{text}\"");
            prop_assert_eq!(document(&quoted, 0).is_ok(), is_json(&quoted), "{:?}", quoted);
            let proper = serde_json::Value::from(text).to_string();
            prop_assert!(document(&proper, 0).is_ok());
        }
    }
}
