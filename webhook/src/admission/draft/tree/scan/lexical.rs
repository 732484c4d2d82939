//! Scans the smallest parts of JSON: strings, numbers, words (`true`, `false`, `null`) and the space between them.

use super::{ScanError, Scanner};

/// Kinds of escapes in a string.
#[derive(Default)]
pub(super) struct Escapes {
    pub(super) any: bool,
    /// Half of a surrogate pair without the other: it stands for no character.
    pub(super) half: bool,
}

impl Scanner<'_> {
    pub(super) fn scalar(&mut self) -> Result<(), ScanError> {
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
        self.skip_if(b'-');
        if !self.skip_if(b'0') {
            self.digits()?;
        }
        if self.skip_if(b'.') {
            self.digits()?;
        }
        if self.skip_if(b'e') || self.skip_if(b'E') {
            let _is_signed = self.skip_if(b'+') || self.skip_if(b'-');
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

    /// Skips the rest of a string after its opening quote.
    pub(super) fn string(&mut self) -> Result<Escapes, ScanError> {
        let mut escapes = Escapes::default();
        // Where the second half of a surrogate pair must begin.
        let mut awaited = None;
        loop {
            self.at += plain(self.text.as_bytes().get(self.at..).unwrap_or_default());
            match self.peek().ok_or(ScanError::End)? {
                b'"' => {
                    self.at += 1;
                    escapes.half |= awaited.is_some();
                    return Ok(escapes);
                }
                b'\\' => {
                    let start = self.at;
                    let unit = self.escape()?;
                    escapes.any = true;
                    let is_second = (0xdc00..0xe000).contains(&unit);
                    escapes.half |= match awaited.take() {
                        Some(at) => at != start || !is_second,
                        None => is_second,
                    };
                    awaited = (0xd800..0xdc00).contains(&unit).then_some(self.at);
                }
                _ => return Err(self.syntax()),
            }
        }
    }

    /// Skips an escape; returns its code unit if it is written as a number, else 0.
    fn escape(&mut self) -> Result<u32, ScanError> {
        self.at += 1;
        let kind = self.peek().ok_or(ScanError::End)?;
        let digits = match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 0,
            b'u' => 4,
            _ => return Err(self.syntax()),
        };
        self.at += 1;
        let mut unit = 0;
        for _ in 0..digits {
            let digit = char::from(self.peek().ok_or(ScanError::End)?).to_digit(16);
            let Some(digit) = digit else {
                return Err(self.syntax());
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips `byte` if it is the next.
    pub(super) fn skip_if(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), ScanError> {
        if self.skip_if(byte) {
            Ok(())
        } else {
            Err(self.syntax())
        }
    }

    /// Error for the byte at this place.
    pub(super) fn syntax(&self) -> ScanError {
        if self.at < self.text.len() {
            ScanError::Syntax { at: self.at }
        } else {
            ScanError::End
        }
    }
}

/// Rest of the text after a string whose opening quote has been read.
pub(super) fn behind_string(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.get(plain(text)..).unwrap_or_default();
        match text {
            [b'\\', _, behind @ ..] => text = behind,
            [_, behind @ ..] => return behind,
            [] => return text,
        }
    }
}

/// Rest of the text after the JSON value that begins here.
pub(super) fn behind_value(mut text: &[u8]) -> &[u8] {
    let mut depth = 0_usize;
    loop {
        match text {
            [b'"', behind @ ..] => text = behind_string(behind),
            [b'{' | b'[', behind @ ..] => (text, depth) = (behind, depth + 1),
            [b'}' | b']', behind @ ..] => (text, depth) = (behind, depth.saturating_sub(1)),
            // A number or a literal ends at a delimiter; values are separated by commas, colons and white space.
            [_, behind @ ..] => {
                text = behind;
                let is_over = |byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                if depth > 0 || !text.first().is_none_or(|byte| is_over(*byte)) {
                    continue;
                }
            }
            [] => {}
        }
        if depth == 0 || text.is_empty() {
            return text;
        }
    }
}

/// Distance to the next quote, backslash or control character, computed eight bytes at a time.
pub(super) fn plain(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    // With this bit flipped, the quote directly follows the control characters, which stay together.
    const TURNED: u8 = b'"' ^ 0x20;
    // The highest bit of each byte that is below that limit, and perhaps of bytes above the lowest such.
    let below = |bytes: u64, limit: u8| bytes.wrapping_sub(ONES * u64::from(limit)) & !bytes;
    let (blocks, tail) = text.as_chunks::<8>();
    for (index, block) in blocks.iter().enumerate() {
        let block = u64::from_le_bytes(*block);
        let quotes_and_controls = below(block ^ (ONES * u64::from(TURNED)), 0x21);
        let escapes = below(block ^ (ONES * u64::from(b'\\')), 1);
        let marks = (quotes_and_controls | escapes) & (ONES << 7);
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &&u8| **byte != b'"' && **byte != b'\\' && **byte >= 0x20;
    text.len() - tail.len() + tail.iter().take_while(is_plain).count()
}
