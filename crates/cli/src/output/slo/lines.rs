//! Wraps text at 80 columns or at the terminal's width, and escapes characters that would move the cursor.

use std::fmt::Write as _;

pub(in crate::output) const WIDTH: usize = 80;

/// Wraps text between words, with an indentation. A word that is too long gets a line of its own.
pub(in crate::output) fn wrapped(indent: usize, text: &str) -> String {
    wrapped_at(WIDTH, indent, text)
}

/// Wraps text at this width, in columns.
pub(in crate::output) fn wrapped_at(width: usize, indent: usize, text: &str) -> String {
    let text = printable(text);
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push('\n');
            used = 0;
        }
        if used == 0 {
            lines.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += length;
    }
    lines.push('\n');
    lines
}

/// Escapes control and invisible characters.
pub(in crate::output) fn printable(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            let escape = character.escape_unicode();
            let _is_text = write!(plain, "{escape}").is_ok();
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Characters that change the direction of text or have no width.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let text = "word ".repeat(40);
        let lines = wrapped(4, text.trim());
        assert!(
            lines
                .lines()
                .all(|line| line.starts_with("    word") && line.len() <= WIDTH)
        );
        assert!(lines.lines().count() == 3 && lines.ends_with("word\n"), "{lines}");
        let long = "x".repeat(100);
        assert_eq!(
            wrapped(2, &format!("a {long} b")),
            format!("  a\n  {long}\n  b\n")
        );
        assert_eq!(wrapped(2, ""), "  \n");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(
            printable("a\u{1b}[2Jä\n\u{202e}b"),
            "a\\u{1b}[2Jä\\u{a}\\u{202e}b"
        );
    }
}
