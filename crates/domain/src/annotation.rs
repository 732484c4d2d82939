//! [`Annotation`]: the text of a Node annotation and its parsed value. Each text is parsed once; clones share both.

use std::{str::FromStr, sync::Arc};

/// Longest text that is kept and parsed, in bytes; Headroom's own annotations are far shorter. A parsed value can
/// need many times the memory of its text.
pub const LONGEST: usize = 8 << 10;

/// Text of an annotation and its parsed value. Clones share both.
#[derive(Debug)]
pub struct Annotation<T>(Arc<Content<T>>);

#[derive(Debug)]
struct Content<T> {
    text: String,
    value: Option<T>,
}

impl<T: FromStr> Annotation<T> {
    /// Parses a text. A text longer than [`LONGEST`] is truncated: it then fails to parse, or parses the same if only
    /// trailing spaces were cut.
    pub fn parse(mut text: String) -> Self {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.shrink_to_fit();
        let value = text.parse().ok();
        Self(Arc::new(Content { text, value }))
    }

    /// Reuses `known` if it has the same text, otherwise parses the text.
    pub fn parse_unless(text: impl AsRef<str> + Into<String>, known: Option<&Self>) -> Self {
        match known.filter(|known| known.text() == text.as_ref()) {
            Some(known) => known.clone(),
            None => Self::parse(text.into()),
        }
    }
}

impl<T> Annotation<T> {
    /// Text of the annotation, at most [`LONGEST`] bytes.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Parsed value; `None` if the text does not parse.
    pub fn value(&self) -> Option<&T> {
        self.0.value.as_ref()
    }

    /// Returns true if one is a clone of the other, so that both share one parsed value.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: FromStr> From<String> for Annotation<T> {
    fn from(text: String) -> Self {
        Self::parse(text)
    }
}

impl<T: FromStr> From<&str> for Annotation<T> {
    fn from(text: &str) -> Self {
        Self::parse(text.to_owned())
    }
}

impl<T> Clone for Annotation<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Annotation<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl<T> Eq for Annotation<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_text_is_not_parsed_again() {
        let known = Annotation::<u32>::from("7");
        let same = Annotation::parse_unless("7".to_owned(), Some(&known));
        assert!(same.is_shared_with(&known) && same == known);
        let other = Annotation::parse_unless("8".to_owned(), Some(&known));
        assert!(!other.is_shared_with(&known));
        assert_eq!((other.text(), other.value()), ("8", Some(&8)));
        let equal = Annotation::from("7");
        assert!(!equal.is_shared_with(&known) && equal == known);
    }

    #[test]
    fn a_text_that_cannot_be_read_is_kept_as_written() {
        let odd = Annotation::<u32>::from("seven");
        assert_eq!((odd.text(), odd.value()), ("seven", None));
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let long = Annotation::<String>::parse(format!("{}é and more", "x".repeat(LONGEST - 1)));
        assert_eq!(long.text(), "x".repeat(LONGEST - 1));
    }
}
