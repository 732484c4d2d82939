//! Reads the rules of the ConfigMap like Koordinator: member names in any case, `null` like absent.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::LabelRule;

/// Maximum length of the rules, in bytes.
const LONGEST: usize = 64 << 10;
/// Maximum number of unknown members that are reported.
const MOST_UNKNOWN: usize = 8;

/// Rules of one version of the ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RulesDocument {
    /// The rules, in document order.
    pub rules: Vec<LabelRule>,
    /// Paths of unknown members, such as `[0].requiredLable`; at most eight.
    pub unknown: Vec<String>,
}

/// Reasons why the rules cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The text exceeds 64 KiB.
    #[error("rules is longer than {LONGEST} bytes")]
    TooLong,
    /// The text is not valid JSON.
    #[error("rules is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A member has the wrong type.
    #[error("rules{path} must be {expected}")]
    Type {
        /// Path of the member, such as `[0].name`.
        path: String,
        /// Expected type, with its article.
        expected: &'static str,
    },
}

impl RulesDocument {
    /// Parses the text of the key `rules`.
    ///
    /// # Errors
    /// The text is too long or not JSON, or a known member has another type. The whole text must be ignored then.
    pub fn read(text: &str) -> Result<Self, RulesError> {
        if text.len() > LONGEST {
            return Err(RulesError::TooLong);
        }
        let mut document = Self::default();
        for (index, element) in list(serde_json::from_str(text)?, "")?.into_iter().enumerate() {
            let path = format!("[{index}]");
            let rule = match element {
                Value::Null => LabelRule::default(),
                Value::Object(members) => document.rule(members, &path)?,
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Err(wrong(&path, "an object"));
                }
            };
            document.rules.push(rule);
        }
        Ok(document)
    }

    fn rule(&mut self, members: Map<String, Value>, path: &str) -> Result<LabelRule, RulesError> {
        let mut rule = LabelRule::default();
        for (member, value) in members {
            let path = format!("{path}.{member}");
            match member.to_ascii_lowercase().as_str() {
                // `null` leaves the default.
                _ if value.is_null() => {}
                "name" => rule.name = text(value, &path)?,
                "requiredlabels" => rule.required = texts(value, &path)?,
                "namespacewhitelist" => {
                    let names = texts(value, &path)?.into_iter();
                    // An empty name is not a namespace.
                    rule.exempt_namespaces = names.filter(|name| !name.is_empty()).collect::<BTreeSet<_>>();
                }
                _ if self.unknown.len() < MOST_UNKNOWN => self.unknown.push(path),
                _ => {}
            }
        }
        Ok(rule)
    }
}

fn list(value: Value, path: &str) -> Result<Vec<Value>, RulesError> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(elements) => Ok(elements),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Err(wrong(path, "a list")),
    }
}

fn texts(value: Value, path: &str) -> Result<Vec<String>, RulesError> {
    let elements = list(value, path)?.into_iter().enumerate();
    let texts = elements.map(|(index, element)| {
        if element.is_null() {
            return Ok(String::new());
        }
        text(element, &format!("{path}[{index}]"))
    });
    texts.collect()
}

fn text(value: Value, path: &str) -> Result<String, RulesError> {
    if let Value::String(text) = value {
        Ok(text)
    } else {
        Err(wrong(path, "a string"))
    }
}

fn wrong(path: &str, expected: &'static str) -> RulesError {
    RulesError::Type {
        path: path.to_owned(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn members_are_read_in_any_case_and_null_is_absent() {
        let text = r#"[null, {"NAME": "a", "requiredLabels": ["x", null], "NamespaceWhitelist": ["", "ns"]},
            {"name": null, "requiredLabels": null, "namespaceWhitelist": null}]"#;
        let document = RulesDocument::read(text).unwrap();
        let rule = LabelRule {
            name: "a".to_owned(),
            required: vec!["x".to_owned(), String::new()],
            exempt_namespaces: BTreeSet::from(["ns".to_owned()]),
        };
        assert_eq!(document.rules, [LabelRule::default(), rule, LabelRule::default()]);
        assert!(document.unknown.is_empty());
        for nothing in ["null", "[]"] {
            assert_eq!(RulesDocument::read(nothing).unwrap(), RulesDocument::default());
        }
    }

    #[test]
    fn unknown_members_are_reported_up_to_a_limit() {
        let document = RulesDocument::read(r#"[{"requiredLables": ["x"]}, {"b": 1}]"#).unwrap();
        assert_eq!(document.unknown, ["[0].requiredLables", "[1].b"]);
        let many: Map<String, Value> = (0..100).map(|at| (at.to_string(), Value::Null)).collect();
        assert_eq!(
            RulesDocument::read(&serde_json::json!([many]).to_string())
                .unwrap()
                .unknown
                .len(),
            0
        );
        let many: Map<String, Value> = (0..100).map(|at| (at.to_string(), 1.into())).collect();
        assert_eq!(
            RulesDocument::read(&serde_json::json!([many]).to_string())
                .unwrap()
                .unknown
                .len(),
            MOST_UNKNOWN
        );
    }

    #[rstest]
    #[case("", "rules is not JSON: EOF while parsing a value at line 1 column 0")]
    #[case("[", "rules is not JSON: EOF while parsing a list at line 1 column 1")]
    #[case("{}", "rules must be a list")]
    #[case("[1]", "rules[0] must be an object")]
    #[case(r#"[{"name": 1}]"#, "rules[0].name must be a string")]
    #[case(r#"[{}, {"requiredLabels": "a"}]"#, "rules[1].requiredLabels must be a list")]
    #[case(
        r#"[{"requiredLabels": ["a", []]}]"#,
        "rules[0].requiredLabels[1] must be a string"
    )]
    fn unreadable_parts_are_named(#[case] text: &str, #[case] told: &str) {
        assert_eq!(RulesDocument::read(text).unwrap_err().to_string(), told);
    }

    #[test]
    fn a_long_or_deep_text_is_not_read() {
        let long = format!("[{}]", " ".repeat(LONGEST));
        assert_eq!(
            RulesDocument::read(&long).unwrap_err().to_string(),
            "rules is longer than 65536 bytes"
        );
        assert!(RulesDocument::read(&"[".repeat(LONGEST)).is_err());
    }
}
