//! Removes the escapes of JSON strings.

use std::borrow::Cow;

/// Unescapes the text between two quotes, which the scanner has accepted.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        plain.push_str(before);
        rest = push_escape(escape, &mut plain);
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Adds the character of an escape, and returns the rest of the text.
fn push_escape<'t>(escape: &'t str, plain: &mut String) -> &'t str {
    let mut characters = escape.chars();
    match characters.next() {
        Some('u') => {
            let (unit, rest) = code_unit(characters.as_str());
            let second = rest.strip_prefix("\\u").map(code_unit);
            let pair = second.and_then(|(second, rest)| Some((surrogate_pair(unit, second)?, rest)));
            let (character, rest) = pair.unwrap_or_else(|| (alone(unit), rest));
            plain.push(character);
            return rest;
        }
        Some('b') => plain.push('\u{8}'),
        Some('f') => plain.push('\u{c}'),
        Some('n') => plain.push('\n'),
        Some('r') => plain.push('\r'),
        Some('t') => plain.push('\t'),
        Some(other) => plain.push(other),
        None => {}
    }
    characters.as_str()
}

/// Returns the number of four hexadecimal digits, and the rest of the text.
fn code_unit(text: &str) -> (u32, &str) {
    let (digits, rest) = text.split_at_checked(4).unwrap_or((text, ""));
    (u32::from_str_radix(digits, 16).unwrap_or_default(), rest)
}

fn surrogate_pair(high: u32, low: u32) -> Option<char> {
    let is_pair = (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low);
    let code = is_pair.then(|| 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?;
    char::from_u32(code)
}

fn alone(unit: u32) -> char {
    char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
}
