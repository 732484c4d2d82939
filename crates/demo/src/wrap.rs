//! Wraps lines at the terminal's width: sentences between words, and commands so that a shell still accepts them.

/// Indentation of lines that are commands.
const COMMAND: &str = "  ";
/// Indentation of continuation lines after a wrap.
const HANGING: &str = "      ";
/// End of each line of a wrapped command except the last.
const CONTINUES: &str = " \\";

/// Wraps sentences at `width` characters; a longer word gets a line of its own.
pub(super) fn wrap(text: &str, width: usize) -> String {
    wrap_lines(text, width, |_| "")
}

/// Like [`wrap`], but lines that start with two spaces are shell commands.
pub(super) fn wrap_hints(text: &str, width: usize) -> String {
    wrap_lines(text, width, |line| {
        if line.starts_with(COMMAND) { CONTINUES } else { "" }
    })
}

fn wrap_lines(text: &str, width: usize, continues: impl Fn(&str) -> &'static str) -> String {
    let lines = text.split('\n').map(|line| {
        if line.chars().count() <= width {
            line.to_owned()
        } else {
            broken(line, width, continues(line))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Rows of the text on a terminal of this width.
pub(super) fn rows(text: &str, width: usize) -> usize {
    let of_line = |line: &str| line.chars().count().div_ceil(width.max(1)).max(1);
    text.lines().map(of_line).sum()
}

fn broken(line: &str, width: usize, continues: &str) -> String {
    let (mut text, mut column) = (String::new(), 0);
    // Leading and repeated spaces appear as empty words.
    for (index, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length + continues.len() <= width {
            text.push(' ');
            column += 1;
        } else if index > 0 {
            text.extend([continues, "\n", HANGING]);
            column = HANGING.len();
        }
        text += word;
        column += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_command_is_still_one_command() {
        let command =
            "  kubectl-headroom top --addr 127.0.0.1:9444 --ca-file /a/rather/long/path/ca.pem --once";
        let text = wrap_hints(command, 40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.lines().count() > 2);
        let joined = text.replace("\\\n", " ");
        let words: Vec<_> = joined.split_whitespace().collect();
        assert_eq!(words, command.split_whitespace().collect::<Vec<_>>());
        assert_eq!(
            text.lines().filter(|line| line.ends_with(CONTINUES)).count() + 1,
            text.lines().count()
        );
    }

    #[test]
    fn sentence_wraps_between_words_with_indentation() {
        let text = wrap("ok    a claim of several words: what it shows", 20);
        assert_eq!(
            text,
            "ok    a claim of\n      several words:\n      what it shows"
        );
        let whole = "short enough\n\nand so is this";
        assert_eq!(wrap(whole, 20), whole);
        assert_eq!(
            wrap("a-word-that-does-not-fit x", 10),
            "a-word-that-does-not-fit\n      x"
        );
    }

    #[test]
    fn events_are_not_wrapped_as_commands() {
        let event = "  25.8 s  the pending pods are scheduled; 2166m bound on 1900m raw";
        let text = wrap(event, 40);
        assert!(!text.contains('\\') && text.lines().count() == 3, "{text}");
    }

    #[test]
    fn rows_include_lines_that_the_terminal_wraps() {
        assert_eq!(rows("1234567890\n\n12345678901\n", 10), 4);
        assert_eq!(rows("", 10), 0);
    }
}
