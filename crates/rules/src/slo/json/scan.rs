//! Scans JSON text by Go's rules, with Go's message about the first wrong character.

use headroom_domain::field::BadValue;

use super::{JsonKind, Node};

/// Maximum nesting of lists and objects: Go's limit.
const DEEPEST: usize = 10_000;

/// The text is not a JSON value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SyntaxError {
    reason: String,
    /// Line of the wrong character or of the end of the text, from 1.
    pub line: usize,
    /// Position in the line in characters, from 1.
    pub column: usize,
}

/// Tokens that may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Separator,
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    nodes: Vec<Node>,
    open: Vec<usize>,
}

pub(super) fn scan(text: &str) -> Result<Vec<Node>, SyntaxError> {
    let mut scanner = Scanner {
        text,
        at: 0,
        nodes: Vec::new(),
        open: Vec::new(),
    };
    if u32::try_from(text.len()).is_err() {
        return Err(scanner.error("exceeded max length".to_owned()));
    }
    let mut expected = Expected::Value;
    loop {
        scanner.skip_blanks();
        let is_end = expected == Expected::Separator && scanner.open.is_empty() && scanner.peek().is_none();
        if is_end {
            return Ok(scanner.nodes);
        }
        expected = scanner.step(expected)?;
    }
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn step(&mut self, expected: Expected) -> Result<Expected, SyntaxError> {
        match (expected, self.peek()) {
            (Expected::ValueOrEnd, Some(b']')) | (Expected::KeyOrEnd, Some(b'}')) => Ok(self.close()),
            (Expected::Value | Expected::ValueOrEnd, _) => self.value(),
            (Expected::Key | Expected::KeyOrEnd, _) => self.key(),
            (Expected::Separator, next) => {
                let kind = self.open.last().and_then(|&index| self.nodes.get(index));
                match (kind.map(|node| node.kind), next) {
                    (Some(JsonKind::Object), Some(b',')) => Ok(self.pass(Expected::Key)),
                    (Some(JsonKind::Object), Some(b'}')) | (Some(JsonKind::List), Some(b']')) => {
                        Ok(self.close())
                    }
                    (Some(JsonKind::List), Some(b',')) => Ok(self.pass(Expected::Value)),
                    (Some(JsonKind::Object), _) => Err(self.unexpected("after object key:value pair")),
                    (Some(_), _) => Err(self.unexpected("after array element")),
                    (None, _) => Err(self.unexpected("after top-level value")),
                }
            }
        }
    }

    fn value(&mut self) -> Result<Expected, SyntaxError> {
        match self.peek() {
            Some(b'{') => self.open(JsonKind::Object, Expected::KeyOrEnd),
            Some(b'[') => self.open(JsonKind::List, Expected::ValueOrEnd),
            Some(b'"') => self.token(JsonKind::Text, Self::string),
            Some(b'-' | b'0'..=b'9') => self.token(JsonKind::Number, Self::number),
            Some(b't') => self.token(JsonKind::True, |scanner| scanner.literal("true")),
            Some(b'f') => self.token(JsonKind::False, |scanner| scanner.literal("false")),
            Some(b'n') => self.token(JsonKind::Null, |scanner| scanner.literal("null")),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn key(&mut self) -> Result<Expected, SyntaxError> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        self.token(JsonKind::Text, Self::string)?;
        self.skip_blanks();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        Ok(self.pass(Expected::Value))
    }

    fn pass(&mut self, expected: Expected) -> Expected {
        self.at += 1;
        expected
    }

    fn open(&mut self, kind: JsonKind, expected: Expected) -> Result<Expected, SyntaxError> {
        if self.open.len() == DEEPEST {
            return Err(self.error("exceeded max depth".to_owned()));
        }
        self.open.push(self.nodes.len());
        self.push(kind, self.at);
        Ok(self.pass(expected))
    }

    fn close(&mut self) -> Expected {
        self.at += 1;
        let (end, next) = (offset(self.at), offset(self.nodes.len()));
        let opened = self.open.pop();
        if let Some(node) = opened.and_then(|index| self.nodes.get_mut(index)) {
            (node.end, node.next) = (end, next);
        }
        Expected::Separator
    }

    fn token(
        &mut self,
        kind: JsonKind,
        scan: impl FnOnce(&mut Self) -> Result<(), SyntaxError>,
    ) -> Result<Expected, SyntaxError> {
        let start = self.at;
        scan(self)?;
        self.push(kind, start);
        Ok(Expected::Separator)
    }

    fn push(&mut self, kind: JsonKind, start: usize) {
        self.nodes.push(Node {
            kind,
            start: offset(start),
            end: offset(self.at),
            next: offset(self.nodes.len() + 1),
        });
    }

    fn literal(&mut self, word: &str) -> Result<(), SyntaxError> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let expected = char::from(expected);
                return Err(self.unexpected(&format!("in literal {word} (expecting '{expected}')")));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// Scans at least one digit.
    fn digits(&mut self, place: &str) -> Result<(), SyntaxError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected(place));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                None | Some(0..=0x1f) => return Err(self.unexpected("in string literal")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        match self.peek() {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.unexpected("in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.unexpected("in string escape code")),
        }
        Ok(())
    }

    /// Error for a character that is not allowed here, or for the end of the text.
    fn unexpected(&self, place: &str) -> SyntaxError {
        let Some(byte) = self.peek() else {
            return self.error("unexpected end of JSON input".to_owned());
        };
        self.error(format!("invalid character {} {place}", quoted(byte)))
    }

    fn error(&self, reason: String) -> SyntaxError {
        // `at` is on a character boundary: only strings contain non-ASCII characters, and they end at an ASCII quote.
        let before = self.text.get(..self.at).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        SyntaxError {
            reason,
            line: 1 + before.matches('\n').count(),
            column: 1 + line.chars().count(),
        }
    }
}

/// Quotes a byte like Go, as the character with that code.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = BadValue::from(char::from(byte).to_string()).to_string();
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

/// The text is shorter than 4 GiB, so every index fits.
fn offset(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
