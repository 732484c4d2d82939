//! Texts of bounded length, made without more work than they have bytes.

use std::io;

use serde::Serialize;

/// Longest text of a value, in bytes, before it is cut.
const LONGEST_VALUE: usize = 128;
/// Usual length of the text of a value, in bytes.
const USUAL_VALUE: usize = 32;
/// What a text ends in that was cut.
const CUT: &str = "...";

/// Takes as many bytes as there is room for, and fails then.
struct BoundedWriter(Vec<u8>);

impl io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = LONGEST_VALUE.saturating_sub(self.0.len());
        self.0.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if bytes.len() > room {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The start of a text.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let start = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    let dots = if start.len() < text.len() { CUT } else { "" };
    [start, dots].concat()
}

/// The same text, cut.
pub(super) fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str(CUT);
    }
    text
}

/// A value as compact JSON, cut.
pub(super) fn value_text(value: &(impl Serialize + ?Sized)) -> String {
    let mut writer = BoundedWriter(Vec::with_capacity(USUAL_VALUE));
    let is_whole = serde_json::to_writer(&mut writer, value).is_ok();
    if is_whole && let Ok(text) = String::from_utf8(std::mem::take(&mut writer.0)) {
        return text;
    }
    let text = String::from_utf8_lossy(&writer.0);
    // A character that was cut in its middle.
    let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    format!("{text}{CUT}")
}
