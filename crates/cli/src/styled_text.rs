//! `StyledText`: text whose pieces say how urgent they are. A terminal shows that as colour; elsewhere it is plain text.

use anstyle::{AnsiColor, Style};

use crate::escape::escaped;

/// How urgent a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// A title.
    Heading,
    /// Something is held back.
    Warning,
    /// Something is wrong now.
    Alarm,
}

impl Tone {
    /// Colour and weight on a terminal.
    const fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Heading => Style::new().bold(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Alarm => AnsiColor::Red.on_default(),
        }
    }
}

/// Text in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StyledText(Vec<(Tone, String)>);

impl StyledText {
    /// Adds a piece at the end.
    pub fn push(&mut self, tone: Tone, text: impl Into<String>) {
        self.0.push((tone, text.into()));
    }

    /// Adds another text at the end.
    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The text without its tones.
    pub fn plain(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// The text for a terminal: control characters escaped, each piece in its colour, which ends with each line.
    pub(crate) fn painted(&self) -> String {
        let mut painted = String::new();
        for (tone, text) in &self.0 {
            let text = escaped(text);
            let style = tone.style();
            for line in text.split_inclusive('\n') {
                let words = line.strip_suffix('\n').unwrap_or(line);
                if !words.is_empty() {
                    painted += &format!("{style}{words}{style:#}");
                }
                if words.len() < line.len() {
                    painted.push('\n');
                }
            }
        }
        painted
    }
}

impl<T: Into<String>> From<T> for StyledText {
    fn from(text: T) -> Self {
        Self(vec![(Tone::Plain, text.into())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_ends_with_its_line_and_texts_of_others_make_none() {
        let mut text = StyledText::from("a ");
        text.push(Tone::Alarm, "b\nc\u{1b}[2J\n");
        assert_eq!(text.plain(), "a b\nc\u{1b}[2J\n");
        assert_eq!(text.painted(), "a \x1b[31mb\x1b[0m\n\x1b[31mc\\u001b[2J\x1b[0m\n");
    }
}
