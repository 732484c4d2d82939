//! Reads strict YAML: unknown keys and wrong values are refused with file, line and key path.
//!
//! Strictness about keys comes from the types: every struct read here has `#[serde(deny_unknown_fields)]`. Ranges
//! belong in `#[serde(try_from = "..")]` types, so that errors about them contain the path too.

mod follow;

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path as KeyPath, Segment};

pub use self::follow::follow;

/// Reasons why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// Path of the file, as given.
        file: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The text is not valid YAML or does not fit the type.
    #[error("{}:{line}:{column}: {}{reason} (line is {text:?})", file.display(), at_key(key))]
    Invalid {
        /// Path of the file that contains the text.
        file: PathBuf,
        /// Line of the offending value, from 1.
        line: u64,
        /// Column of the offending value, from 1.
        column: u64,
        /// Dotted path of the key, as in `nodes[2].bounds.max`; empty for the document itself.
        key: String,
        /// Reason, without file, line and column.
        reason: String,
        /// The offending line without indentation.
        text: String,
    },
}

/// Reads one YAML document from a file.
///
/// # Errors
/// The file cannot be read, or [`parse`] refuses its text.
pub fn load<T: DeserializeOwned>(file: &Path) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(file).map_err(|source| ConfigError::Read {
        file: file.to_owned(),
        source,
    })?;
    parse(&text, file)
}

/// Reads one YAML document from text; errors name `file` as its origin.
///
/// # Errors
/// The text is not one YAML document, repeats a key, or does not fit the type.
pub fn parse<T: DeserializeOwned>(text: &str, file: &Path) -> Result<T, ConfigError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    // Takes the path out of the wrapped error: the YAML reader adds the position to its own error type only.
    let mut key = String::new();
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            key = dotted(error.path());
            error.into_inner()
        })
    })
    .map_err(|error| {
        let (line, column) = error
            .location()
            .map_or((1, 1), |place| (place.line(), place.column()));
        let at = usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
        ConfigError::Invalid {
            file: file.to_owned(),
            line,
            column,
            key,
            reason: reason(&error, line, column),
            text: text.lines().nth(at).unwrap_or_default().trim().to_owned(),
        }
    })
}

/// The reason for the author of the file, without the position, which is printed separately.
fn reason(error: &serde_saphyr::Error, line: u64, column: u64) -> String {
    let text = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let place = format!(" at line {line}, column {column}");
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

fn at_key(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("{key}: ")
    }
}

/// Joins the known parts of a path; segments that the reader could not name are left out.
fn dotted(path: &KeyPath) -> String {
    path.iter().fold(String::new(), |text, segment| match segment {
        Segment::Seq { index } => format!("{text}[{index}]"),
        Segment::Map { key: name } | Segment::Enum { variant: name } if text.is_empty() => name.clone(),
        Segment::Map { key: name } | Segment::Enum { variant: name } => format!("{text}.{name}"),
        Segment::Unknown => text,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Policy {
        mode: Mode,
        #[serde(default)]
        bounds: BTreeMap<String, Bounds>,
        #[serde(default)]
        nodes: Vec<Bounds>,
        #[serde(default)]
        is_strict: bool,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        Off,
        Auto,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Bounds {
        max: Cents,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(try_from = "u32")]
    struct Cents(u32);

    impl TryFrom<u32> for Cents {
        type Error = String;

        fn try_from(cents: u32) -> Result<Self, String> {
            if cents <= 500 {
                Ok(Self(cents))
            } else {
                Err(format!("{cents} is above 500"))
            }
        }
    }

    fn refusal(text: &str) -> String {
        parse::<Policy>(text, Path::new("policy.yaml"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_correct_document_is_read() {
        let policy: Policy = parse(
            "mode: auto\nbounds: {cpu: {max: 200}}\n",
            Path::new("policy.yaml"),
        )
        .unwrap();
        let bounds = BTreeMap::from([("cpu".to_owned(), Bounds { max: Cents(200) })]);
        assert_eq!(
            policy,
            Policy {
                mode: Mode::Auto,
                bounds,
                nodes: vec![],
                is_strict: false
            }
        );
        assert_eq!(
            parse::<Policy>("mode: off", Path::new("policy.yaml"))
                .unwrap()
                .mode,
            Mode::Off
        );
    }

    #[rstest]
    #[case::unknown_key(
        "mode: auto\nmood: good\n",
        "policy.yaml:2:1: mood: unknown field `mood`",
        "mood: good"
    )]
    #[case::unknown_nested_key(
        "mode: auto\nbounds:\n  cpu:\n    max: 1\n    mux: 2\n",
        "policy.yaml:5:5: bounds.cpu.mux: unknown field `mux`",
        "mux: 2"
    )]
    #[case::wrong_type("mode: auto\nis_strict: 3\n", "policy.yaml:2:12: is_strict: ", "is_strict: 3")]
    #[case::old_boolean(
        "mode: auto\nis_strict: yes\n",
        "policy.yaml:2:12: is_strict: ",
        "is_strict: yes"
    )]
    #[case::wrong_type_in_a_list(
        "mode: auto\nnodes:\n- max: 1\n- max: high\n",
        "policy.yaml:4:8: nodes[1].max: ",
        "- max: high"
    )]
    #[case::out_of_range(
        "mode: auto\nnodes: [{max: 900}]\n",
        "policy.yaml:2:15: nodes[0].max: 900 is above 500",
        "nodes: [{max: 900}]"
    )]
    #[case::unknown_variant(
        "mode: auto-ish\n",
        "policy.yaml:1:7: mode: unknown variant `auto-ish`",
        "mode: auto-ish"
    )]
    #[case::duplicate_key("mode: auto\nmode: off\n", "policy.yaml:2:1: ", "mode: off")]
    #[case::missing_key("nodes: []\n", "policy.yaml:1:1: missing field `mode`", "nodes: []")]
    #[case::not_yaml("mode: [auto\n", "policy.yaml:", "")]
    #[case::two_documents("mode: auto\n---\nmode: off\n", "policy.yaml:", "")]
    #[case::empty("", "policy.yaml:", "")]
    fn a_wrong_document_is_refused_with_file_line_path_and_value(
        #[case] text: &str,
        #[case] start: &str,
        #[case] line: &str,
    ) {
        let refusal = refusal(text);
        println!("{refusal}");
        assert!(refusal.starts_with(start), "{refusal}");
        assert!(
            line.is_empty() || refusal.ends_with(&format!("(line is {line:?})")),
            "{refusal}"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load::<Policy>(Path::new("/nonexistent/policy.yaml")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nonexistent/policy.yaml");
    }
}
