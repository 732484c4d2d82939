//! Reads comments, strings and pages, and finds wording that `tests/process/language.rs` forbids.

use std::fmt::{Display, Formatter, Result};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item};

/// First words of a doc comment that lacks a subject. Each is compared in this case.
const HEADLESS: [&[&str]; 13] = [
    &["What"],
    &["Whether"],
    &["How"],
    &["Where"],
    &["Who"],
    &["Whose"],
    &["Whom"],
    &["Which"],
    &["Those"],
    &["When"],
    &["As"],
    &["The", "same"],
    &["The", "Same"],
];

/// Phrases that name no actor, no number or no field, in lower case. A phrase matches whole words only.
const PHRASES: [&str; 32] = [
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "whoever",
    "who asks",
    "is to be",
    "are to be",
    "mend",
    "mends",
    "mended",
    "hands out",
    "handed out",
    "fell silent",
    "no more than",
    "nothing but",
    "so many",
    "so much",
    "so long",
    "once more",
    "anew",
    "is told",
    "are told",
    "was told",
    "hear",
    "hears",
    "believe",
    "believes",
    "of whom",
    "dear",
    "would-be",
    "in place of",
];

/// A place with forbidden wording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line in the file, from 1.
    pub line: usize,
    /// Forbidden words.
    pub words: String,
    /// Up to 100 characters of the text around them.
    pub text: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { line, words, text } = self;
        write!(f, "{line}: [{words}] {text}")
    }
}

/// Doc comments of a Rust source that open without a subject.
pub fn headless_comments(source: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut previous = None;
    for (index, line) in source.lines().enumerate() {
        let comment = doc_comment(line);
        let marker = comment.map(|(marker, _)| marker);
        if let Some((_, text)) = comment.filter(|_| marker != previous) {
            faults.extend(headless(index + 1, text));
        }
        previous = marker;
    }
    faults
}

/// Phrases in the string literals of a Rust source, and literals of three words or more that open without a subject; test
/// modules are excepted.
///
/// # Errors
/// If the source is not Rust.
pub fn phrases_in_strings(source: &str) -> syn::Result<Vec<Fault>> {
    let file = syn::parse_file(source)?;
    let mut faults = Vec::new();
    for item in file.items.iter().filter(|item| !is_for_tests(item)) {
        strings(item.to_token_stream(), &mut faults);
    }
    Ok(faults)
}

/// Phrases in the comments of a Rust source.
pub fn phrases_in_comments(source: &str) -> Vec<Fault> {
    let comments = source.lines().map(|line| {
        let mut starts = line.match_indices("//").map(|(start, _)| start);
        let start = starts.find(|start| !line[..*start].ends_with([':', '"']));
        start.map_or("", |start| &line[start..])
    });
    phrases(comments)
}

/// Phrases in a page of Markdown, code blocks included.
pub fn phrases_in_page(page: &str) -> Vec<Fault> {
    phrases(page.lines())
}

/// Phrases in numbered lines. A phrase may begin in one line and end in the next.
fn phrases<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<Fault> {
    let mut words = Vec::new();
    for (index, line) in lines.enumerate() {
        let in_line =
            line.split(|character: char| !(character.is_alphanumeric() || "-'_".contains(character)));
        let in_line = in_line.filter(|word| !word.is_empty());
        words.extend(in_line.map(|word| (index + 1, word.to_lowercase(), line)));
    }
    let mut faults = Vec::new();
    for phrase in PHRASES {
        let length = phrase.split(' ').count();
        for window in words.windows(length) {
            let is_match = window
                .iter()
                .map(|(_, word, _)| word.as_str())
                .eq(phrase.split(' '));
            if let Some((line, _, text)) = window.first().filter(|_| is_match) {
                faults.push(Fault {
                    line: *line,
                    words: phrase.to_owned(),
                    text: excerpt(text),
                });
            }
        }
    }
    faults.sort_by_key(|fault| fault.line);
    faults
}

fn strings(tokens: TokenStream, faults: &mut Vec<Fault>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => strings(group.stream(), faults),
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                if let Ok(text) = syn::parse2::<syn::LitStr>(TokenTree::from(literal).into()) {
                    let text = text.value();
                    let found = phrases([text.as_str()].into_iter()).into_iter();
                    faults.extend(found.map(|fault| Fault { line, ..fault }));
                    // A line of a doc comment begins with a space, and may continue a sentence.
                    let is_sentence = !text.starts_with(' ') && text.split_whitespace().nth(2).is_some();
                    faults.extend(headless(line, &text).filter(|_| is_sentence));
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

fn is_for_tests(item: &Item) -> bool {
    let attributes: &[Attribute] = if let Item::Mod(item) = item {
        &item.attrs
    } else if let Item::Fn(item) = item {
        &item.attrs
    } else if let Item::Impl(item) = item {
        &item.attrs
    } else {
        return false;
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|condition| condition == "test")
    })
}

/// The fault of a text that opens without a subject.
fn headless(line: usize, text: &str) -> Option<Fault> {
    let words: Vec<&str> = text.split_whitespace().take(2).map(trimmed).collect();
    let opening = HEADLESS.iter().find(|opening| words.starts_with(opening))?;
    Some(Fault {
        line,
        words: opening.join(" "),
        text: excerpt(text),
    })
}

/// The marker of a doc comment and the text after it.
fn doc_comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let (marker, text) = ["///", "//!"]
        .into_iter()
        .find_map(|marker| Some((marker, line.strip_prefix(marker)?)))?;
    (!text.starts_with('/')).then_some((marker, text.trim()))
}

fn trimmed(word: &str) -> &str {
    word.trim_end_matches([',', '.', ':', ';', '?'])
}

fn excerpt(text: &str) -> String {
    text.trim().chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comment_without_a_subject_is_found_once() {
        let source = "//! Whether.\nuse a;\n/// What was written.\n/// Where it is.\nstruct A;\n\n    /// The same, later.\n\
                      //// How to.\n// When.\n/// Whatever happens.\n";
        let lines: Vec<usize> = headless_comments(source).iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 3, 7]);
    }

    #[test]
    fn phrases_are_found_in_strings_and_not_in_tests_of_the_file() {
        let source = "fn f() {\n    info!(a = 1, \"No more than 5\", b = (\"nobody,\"));\n}\n/// Nobody.\n\
                      const B: [&str; 2] = [\"Whether it is on.\", \"Who\"];\n#[cfg(test)]\nmod tests {\n    const A: &str = \"dear\";\n}\n";
        let faults = phrases_in_strings(source).unwrap();
        let found: Vec<_> = faults
            .iter()
            .map(|fault| (fault.line, fault.words.as_str()))
            .collect();
        let expected = [(2, "no more than"), (2, "nobody"), (4, "nobody"), (5, "Whether")];
        assert_eq!(found, expected);
    }

    #[test]
    fn phrases_may_go_over_the_end_of_a_line_in_pages_and_comments() {
        let page = "A node is\nto be drained. Ideary would-be.\n";
        let faults = phrases_in_page(page);
        let found: Vec<_> = faults
            .iter()
            .map(|fault| (fault.line, fault.words.as_str()))
            .collect();
        assert_eq!(found, [(1, "is to be"), (2, "would-be")]);
        let comments = "// It is no\nlet a = \"https://anybody\"; // more than that.\n";
        assert_eq!(phrases_in_comments(comments).len(), 1);
    }
}
