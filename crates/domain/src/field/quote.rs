//! [`Quoted`]: a string in double quotes, escaped like Go's `%q`.
//!
//! Go and Rust may use different Unicode versions, so one may escape recently added characters that the other prints.

use std::fmt::{self, Write};

/// String in double quotes; unprintable characters are escaped as in Go source code.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            escape(character, f)?;
        }
        f.write_char('"')
    }
}

fn escape(character: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let code = u32::from(character);
    match character {
        '"' | '\\' => write!(f, "\\{character}"),
        '\x07' => f.write_str("\\a"),
        '\x08' => f.write_str("\\b"),
        '\x0c' => f.write_str("\\f"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        '\x0b' => f.write_str("\\v"),
        ' '..='~' => f.write_char(character),
        '\0'..='\x7f' => write!(f, "\\x{code:02x}"),
        _ if is_printable(character) => f.write_char(character),
        '\u{80}'..='\u{ffff}' => write!(f, "\\u{code:04x}"),
        '\u{10000}'..='\u{10ffff}' => write!(f, "\\U{code:08x}"),
    }
}

/// Returns true for printable characters beyond ASCII: letters, marks, digits, punctuation and symbols. The standard
/// library leaves them unescaped; marks only after another character, hence the `a`.
fn is_printable(character: char) -> bool {
    format!("a{character}")
        .escape_debug()
        .any(|left| left == character)
}
