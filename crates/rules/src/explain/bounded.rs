//! [`Texts`]: texts of bounded length in one buffer; the cost of adding a text is bounded by the length that is kept.

use std::{fmt, io};

use serde::Serialize;

/// Maximum length of a value, in bytes; longer ones are cut.
const LONGEST_VALUE: usize = 128;
/// Initial capacity of the buffer, in bytes; allocated with the first text.
const USUAL_TEXTS: usize = 1_024;
/// Suffix of a text that was cut.
const CUT: &str = "...";

#[derive(Clone, Default)]
pub(super) struct Texts(Vec<u8>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

/// Accepts bytes up to a limit, and fails beyond it.
struct BoundedWriter<'t> {
    texts: &'t mut Vec<u8>,
    free: usize,
}

impl BoundedWriter<'_> {
    /// Adds a part of a text; false if it is cut.
    fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.free;
        let taken = bytes.get(..self.free).unwrap_or(bytes);
        self.texts.extend_from_slice(taken);
        self.free -= taken.len();
        fits
    }
}

impl io::Write for BoundedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.push(bytes) {
            Ok(bytes.len())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for BoundedWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.push(text.as_bytes()) {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(texts) = self;
        fmt::Debug::fmt(&String::from_utf8_lossy(texts), f)
    }
}

impl Texts {
    /// Adds a text, cut to `most` bytes.
    pub(super) fn push(&mut self, text: &str, most: usize) -> Span {
        self.write(most, |writer| writer.write_str(text))
    }

    /// Adds the output of a function, cut to `most` bytes.
    pub(super) fn write(
        &mut self,
        most: usize,
        write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
    ) -> Span {
        self.add(most, |writer| write(writer).is_ok())
    }

    /// Adds a value as compact JSON, cut to [`LONGEST_VALUE`] bytes.
    pub(super) fn push_json(&mut self, value: &(impl Serialize + ?Sized)) -> Span {
        self.add(LONGEST_VALUE, |writer| {
            serde_json::to_writer(writer, value).is_ok()
        })
    }

    fn add(&mut self, most: usize, write: impl FnOnce(&mut BoundedWriter<'_>) -> bool) -> Span {
        let Self(texts) = self;
        if texts.is_empty() {
            texts.reserve(USUAL_TEXTS);
        }
        let start = texts.len();
        let is_whole = write(&mut BoundedWriter { texts, free: most });
        if !is_whole {
            // The cut may be inside a character.
            let text = texts.get(start..).unwrap_or_default();
            let whole = text.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
            texts.truncate(start + whole);
            texts.extend_from_slice(CUT.as_bytes());
        }
        let place = |at| u32::try_from(at).unwrap_or(u32::MAX);
        Span {
            start: place(start),
            end: place(texts.len()),
        }
    }

    /// Returns the text at a position.
    pub(super) fn text(&self, Span { start, end }: Span) -> String {
        let Self(texts) = self;
        let text = texts.get(start as usize..end as usize).unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Drops all texts after this length.
    pub(super) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    /// Releases memory that only further texts would need.
    pub(super) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}

/// Returns the text, cut to `most` bytes.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let start = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    let dots = if start.len() < text.len() { CUT } else { "" };
    [start, dots].concat()
}
