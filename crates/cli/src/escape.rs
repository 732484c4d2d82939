//! Escapes control characters, so that texts from an API, Prometheus or an agent cannot move the cursor, change
//! colours or forge lines.

use std::borrow::Cow;

/// Escapes control characters except line ends and tabs as `\u001b`, which is also valid inside a JSON string.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    replaced(text, |character| {
        is_control(character) && !matches!(character, '\n' | '\t')
    })
}

/// Escapes all control characters, including line ends and tabs, for a value within one line.
pub fn one_line(text: &str) -> Cow<'_, str> {
    replaced(text, is_control)
}

/// Characters that a terminal interprets, and those that reorder displayed text.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

fn replaced(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' if is_escaped(character) => plain.push_str("\\n"),
            '\t' if is_escaped(character) => plain.push_str("\\t"),
            other if is_escaped(other) => plain.extend(["\\u", &format!("{:04x}", u32::from(other))]),
            other => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        for (text, plain) in [
            ("a\tb\n", "a\tb\n"),
            ("\u{1b}[2J", "\\u001b[2J"),
            ("a\rb\u{7}\u{8}\0", "a\\u000db\\u0007\\u0008\\u0000"),
            ("\u{7f}\u{9b}31m", "\\u007f\\u009b31m"),
            ("\u{202e}kcatta\u{2066}", "\\u202ekcatta\\u2066"),
            ("gr\u{fc}n \u{2713}", "gr\u{fc}n \u{2713}"),
        ] {
            assert_eq!(escaped(text), plain);
        }
    }

    #[test]
    fn line_ends_in_a_value_are_escaped() {
        assert_eq!(one_line("a\nb\tc"), "a\\nb\\tc");
    }

    #[test]
    fn escaped_json_parses_to_the_same_value() {
        let value = serde_json::json!("a\u{9b}\u{7f}\u{202e}\u{1b}");
        let read: serde_json::Value = serde_json::from_str(&escaped(&value.to_string())).unwrap();
        assert_eq!(read, value);
    }
}
