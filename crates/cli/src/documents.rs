//! Reads objects from files: YAML with one or several documents, or JSON.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;

/// File name that means standard input.
pub const STANDARD_INPUT: &str = "-";
/// Limit of YAML values in a file. 5,000 nodes as kubectl prints them have two million values.
const MOST_VALUES: usize = 100_000_000;

/// Reads a file; `-` is standard input.
///
/// # Errors
pub fn read_text(file: &Path) -> Result<String, Error> {
    let text = if file == Path::new(STANDARD_INPUT) {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_bytes| text)
    } else {
        fs::read_to_string(file)
    };
    text.map_err(|source| Error::Read {
        path: file.to_owned(),
        source,
    })
}

/// Parses all documents of a text.
///
/// # Errors
/// The text is neither YAML nor JSON of this type; the error is the parser's message.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let json_error = if text.trim_start().starts_with('{') {
        let documents = serde_json::Deserializer::from_str(text).into_iter::<T>();
        match documents.collect::<Result<Vec<_>, _>>() {
            Ok(objects) => return Ok(objects),
            Err(error) => Some(error.to_string()),
        }
    } else {
        None
    };
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: MOST_VALUES,
            max_nodes: MOST_VALUES,
            max_total_scalar_bytes: usize::MAX,
            max_documents: MOST_VALUES,
        },
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        json_error.unwrap_or_else(|| error.render_with_formatter(&serde_saphyr::UserMessageFormatter))
    })
}

/// Value at a path; `null` if it does not exist.
pub fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    let found = path.iter().try_fold(value, |value, name| value.get(name));
    found.unwrap_or(&Value::Null)
}
