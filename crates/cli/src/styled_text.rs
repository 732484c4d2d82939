//! [`StyledText`]: pieces of text, each with an urgency. A terminal shows the urgency as colour; elsewhere text is
//! plain.

use anstyle::{AnsiColor, Style};

use crate::escape::escaped;

/// Urgency of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    Heading,
    /// A limit is active, such as a brake.
    Warning,
    Alarm,
}

impl Tone {
    const fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Heading => Style::new().bold(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Alarm => AnsiColor::Red.on_default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StyledText(Vec<(Tone, String)>);

impl StyledText {
    pub fn push(&mut self, tone: Tone, text: impl Into<String>) {
        self.0.push((tone, text.into()));
    }

    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Text without colours, and with control characters as they are.
    pub fn plain(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Text for a terminal: control characters are escaped, and each colour ends before its line ends.
    pub(crate) fn painted(&self) -> String {
        let mut painted = String::new();
        for (tone, text) in &self.0 {
            let text = escaped(text);
            let style = tone.style();
            for line in text.split_inclusive('\n') {
                let words = line.strip_suffix('\n').unwrap_or(line);
                if !words.is_empty() {
                    painted.extend([
                        style.render().to_string().as_str(),
                        words,
                        style.render_reset().to_string().as_str(),
                    ]);
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
    fn a_colour_ends_with_its_line_and_control_characters_are_escaped() {
        let mut text = StyledText::from("a ");
        text.push(Tone::Alarm, "b\nc\u{1b}[2J\n");
        assert_eq!(text.plain(), "a b\nc\u{1b}[2J\n");
        assert_eq!(text.painted(), "a \x1b[31mb\x1b[0m\n\x1b[31mc\\u001b[2J\x1b[0m\n");
    }
}
