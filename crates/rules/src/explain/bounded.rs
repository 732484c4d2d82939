//! [`Texts`]: texts of bounded length in one buffer, made without more work than they have bytes.

use std::{fmt, io};

use serde::Serialize;

/// Longest text of a value, in bytes, before it is cut.
const LONGEST_VALUE: usize = 128;
/// Room for the texts of a usual explanation, in bytes; made with the first of them.
const USUAL_TEXTS: usize = 1_024;
/// What a text ends in that was cut.
const CUT: &str = "...";

/// Texts, one behind the other.
#[derive(Clone, Default)]
pub(super) struct Texts(Vec<u8>);

/// Where a text is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

/// Takes as many bytes as there is room for, and fails then.
struct BoundedWriter<'t> {
    texts: &'t mut Vec<u8>,
    room: usize,
}

impl BoundedWriter<'_> {
    /// Takes a part of a text; false if it is cut.
    fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.room;
        let taken = bytes.get(..self.room).unwrap_or(bytes);
        self.texts.extend_from_slice(taken);
        self.room -= taken.len();
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
    /// Adds a text, cut.
    pub(super) fn push(&mut self, text: &str, most: usize) -> Span {
        self.write(most, |writer| writer.write_str(text))
    }

    /// Adds what is written, cut.
    pub(super) fn write(
        &mut self,
        most: usize,
        write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
    ) -> Span {
        self.add(most, |writer| write(writer).is_ok())
    }

    /// Adds a value as compact JSON, cut.
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
        let is_whole = write(&mut BoundedWriter { texts, room: most });
        if !is_whole {
            // A character may be cut in its middle.
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

    /// The text that is there.
    pub(super) fn text(&self, Span { start, end }: Span) -> String {
        let Self(texts) = self;
        let text = texts.get(start as usize..end as usize).unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    /// Bytes of all of them.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Drops all texts behind that many bytes.
    pub(super) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    /// Gives back memory that only further texts would need.
    pub(super) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}

/// The start of a text.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let start = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    let dots = if start.len() < text.len() { CUT } else { "" };
    [start, dots].concat()
}
