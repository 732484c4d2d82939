//! [`Violations`]: faults of a quota, in the order of the response, and their text.

use headroom_domain::field::{BadValue, Error, Errors, Path};

/// Maximum number of sentences in a response, and of names in a sentence.
const MOST: usize = 16;

/// Maximum length of a value in a response, in characters.
const LONGEST_SHOWN: usize = 64;

/// Faults of a quota. Faults beyond the first few are counted.
#[derive(Debug, Clone, Default)]
pub struct Violations {
    texts: Vec<Text>,
    errors: Errors,
    uncounted: usize,
}

/// One sentence, or a sentence that ends with a list of names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    Whole(String),
    Names {
        start: String,
        names: Vec<String>,
        more: usize,
    },
}

/// Text of a response, with its details.
#[derive(Debug, Clone, PartialEq)]
pub struct ViolationText {
    /// Sentence or sentences for the message.
    pub text: String,
    /// Field errors for the details.
    pub errors: Errors,
}

impl Violations {
    /// Returns true if there is no violation.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Adds a sentence about the value of a field; a repeated sentence is added once.
    pub fn push(&mut self, field: &Path, value: impl Into<BadValue>, text: String) {
        let whole = Text::Whole(text);
        if self.texts.contains(&whole) {
            return;
        }
        if self.texts.len() == MOST {
            self.uncounted = self.uncounted.saturating_add(1);
            return;
        }
        if let Text::Whole(text) = &whole {
            self.errors
                .push(Error::invalid(field, shortened(value.into()), text));
        }
        self.texts.push(whole);
    }

    /// Adds a name to the sentence with this start, which ends with a list of names.
    pub fn push_name(&mut self, start: &str, name: &str, field: &Path, value: impl Into<BadValue>) {
        let is_full = self.texts.len() == MOST;
        if self.errors.len() < MOST {
            let detail = format!("{start}[{name}]");
            self.errors
                .push(Error::invalid(field, shortened(value.into()), &detail));
        }
        match self.texts.last_mut() {
            Some(Text::Names {
                start: before,
                names,
                more,
            }) if before == start => {
                if names.len() < MOST {
                    names.push(name.to_owned());
                } else {
                    *more = more.saturating_add(1);
                }
            }
            _ if is_full => self.uncounted = self.uncounted.saturating_add(1),
            _ => self.texts.push(Text::Names {
                start: start.to_owned(),
                names: vec![name.to_owned()],
                more: 0,
            }),
        }
    }

    /// Returns the sentences in order; the last one counts those that are omitted.
    pub fn into_sentences(self) -> Vec<String> {
        let Self { texts, uncounted, .. } = self;
        let more = (uncounted > 0).then(|| format!("{uncounted} more"));
        texts.into_iter().map(Text::into_string).chain(more).collect()
    }

    /// Returns the response with all sentences or only the first; `None` if there is no violation.
    pub fn into_text(self, all: bool) -> Option<ViolationText> {
        let Self {
            texts,
            errors,
            uncounted,
        } = self;
        let shown = if all { texts.len() } else { 1 };
        let mut texts: Vec<String> = texts.into_iter().take(shown).map(Text::into_string).collect();
        if texts.is_empty() {
            return None;
        }
        if all && uncounted > 0 {
            texts.push(format!("{uncounted} more"));
        }
        let errors = if all {
            errors
        } else {
            errors.iter().take(1).cloned().collect()
        };
        Some(ViolationText {
            text: texts.join("; "),
            errors,
        })
    }
}

impl Text {
    fn into_string(self) -> String {
        match self {
            Self::Whole(text) => text,
            Self::Names {
                start,
                mut names,
                more,
            } => {
                if more > 0 {
                    names.push("...".to_owned());
                }
                format!("{start}[{}]", names.join(" "))
            }
        }
    }
}

fn shortened(value: BadValue) -> BadValue {
    match value {
        BadValue::Text(text) => BadValue::Text(text.chars().take(LONGEST_SHOWN).collect()),
        BadValue::Integer(_) | BadValue::Bool(_) | BadValue::Json(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_sentence_are_one_text_and_a_text_stands_once() {
        let (path, mut found) = (Path::new("spec"), Violations::default());
        found.push_name("below zero :", "cpu", &path, "-1");
        found.push_name("below zero :", "memory", &path, "-1");
        for _ in 0..2 {
            found.push(&path, "x", "wrong".to_owned());
        }
        let told = found.clone().into_text(true).unwrap();
        assert_eq!(told.text, "below zero :[cpu memory]; wrong");
        assert_eq!(told.errors.len(), 3);
        let first = found.into_text(false).unwrap();
        assert_eq!(
            (first.text.as_str(), first.errors.len()),
            ("below zero :[cpu memory]", 1)
        );
        assert_eq!(Violations::default().into_text(true), None);
    }

    #[test]
    fn a_response_has_a_bounded_length() {
        let (path, mut found) = (Path::new("spec"), Violations::default());
        for number in 0..1_000 {
            found.push_name("n :", &"x".repeat(100), &path, "y".repeat(1_000));
            found.push(&path, "y".repeat(1_000), format!("wrong {number}"));
        }
        let told = found.into_text(true).unwrap();
        assert!(told.text.len() < 4_096, "{}", told.text.len());
        assert!(told.text.ends_with("more") && told.errors.len() <= 2 * MOST);
    }
}
