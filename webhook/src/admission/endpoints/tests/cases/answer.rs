//! [`ExpectedAnswer`]: answers in the form of the tables, with shorthands for refusals of Koordinator's ConfigMap.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const ANYTHING: char = '…';

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "WrittenAnswer")]
pub(super) enum ExpectedAnswer {
    Unchanged,
    /// Allowed; this is merged into the object that was sent.
    Patched(Value),
    Denied {
        code: u16,
        reason: Option<String>,
        message: String,
    },
    /// An HTTP status instead of an answer.
    Failed {
        status: u16,
        message: String,
    },
}

/// An answer as it stands in a table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenAnswer {
    Unchanged,
    Patched(Value),
    Denied {
        code: u16,
        reason: Option<String>,
        message: String,
    },
    Failed {
        status: u16,
        message: String,
    },
    Unreadable(String),
    /// Fault of each field, without the field's name.
    Invalid(BTreeMap<String, String>),
    /// Fault of an entry.
    Refused(String),
    Overlap(EntryConflict),
    Conflict(EntryConflict),
}

/// Entries that select the same.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EntryConflict {
    config: String,
    strategies: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    example_nodes: Option<Vec<String>>,
}

impl From<WrittenAnswer> for ExpectedAnswer {
    fn from(written: WrittenAnswer) -> Self {
        let of_configuration = |reason: &str, message: String| Self::Denied {
            code: 400,
            reason: None,
            message: format!(
                r#"___{{"reason":"{reason}","message":{}}}___"#,
                as_go_writes(&message)
            ),
        };
        match written {
            WrittenAnswer::Unchanged => Self::Unchanged,
            WrittenAnswer::Patched(delta) => Self::Patched(delta),
            WrittenAnswer::Denied {
                code,
                reason,
                message,
            } => Self::Denied {
                code,
                reason,
                message,
            },
            WrittenAnswer::Failed { status, message } => Self::Failed { status, message },
            WrittenAnswer::Unreadable(part) => of_configuration(
                "ParseConfigFail",
                json!(format!(
                    "Failed to parse {part} config in configmap koordinator-system/slo-controller-config, err: {ANYTHING}"
                ))
                .to_string(),
            ),
            WrittenAnswer::Invalid(fields) => {
                let sentence = |(path, text): (String, String)| {
                    let name = path.rsplit('.').next().unwrap();
                    let sentence = format!("{name} {text}");
                    (path, sentence)
                };
                let sentences: BTreeMap<_, _> = fields.into_iter().map(sentence).collect();
                of_configuration("ConfigParamInvalid", json!(sentences).to_string())
            }
            WrittenAnswer::Refused(text) => of_configuration("ConfigParamInvalid", json!(text).to_string()),
            WrittenAnswer::Overlap(conflict) => {
                of_configuration("NodeStrategiesOverlap", serde_json::to_string(&conflict).unwrap())
            }
            WrittenAnswer::Conflict(conflict) => {
                of_configuration("ExistNodeConfict", serde_json::to_string(&conflict).unwrap())
            }
        }
    }
}

impl ExpectedAnswer {
    /// True if that is the answer.
    pub(super) fn is_met_by(&self, answer: &Self) -> bool {
        match (self, answer) {
            (
                Self::Denied {
                    code,
                    reason,
                    message,
                },
                Self::Denied {
                    code: code_of_answer,
                    reason: reason_of_answer,
                    message: text,
                },
            ) => (code, reason) == (code_of_answer, reason_of_answer) && fits(message, text),
            _ => self == answer,
        }
    }
}

/// JSON with the characters that Go escapes.
fn as_go_writes(json: &str) -> String {
    json.replace('<', r"\u003c")
        .replace('>', r"\u003e")
        .replace('&', r"\u0026")
}

/// True if the text is as written, with anything where `…` stands.
pub(super) fn fits(written: &str, text: &str) -> bool {
    let Some((start, parts)) = written.split_once(ANYTHING) else {
        return written == text;
    };
    let Some(mut rest) = text.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.split(ANYTHING).collect();
    let end = parts.pop().unwrap();
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(end)
}

#[test]
fn an_ellipsis_stands_for_any_text() {
    for (written, text, is_met) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a…", "abc", true),
        ("a…c", "abc", true),
        ("a…d", "abc", false),
        ("…b…", "abc", true),
        ("a…b…c", "axbyc", true),
        ("a…b…c", "axc", false),
    ] {
        assert_eq!(fits(written, text), is_met, "{written} {text}");
    }
}
