//! Selector of a node entry: a Kubernetes LabelSelector that refuses any content by which it would silently select
//! nothing or everything.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::{Expression, Selector, SelectorExt as _};
use serde::Deserialize;

use crate::store::node::Labels;

/// Longest name in a label's key, and longest value.
const LONGEST_NAME: usize = 63;
/// Longest prefix of a label's key.
const LONGEST_PREFIX: usize = 253;

/// Selects nodes by their labels, never all of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenSelector")]
pub(super) struct NodeSelector(Selector);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct WrittenSelector {
    match_labels: Option<BTreeMap<LabelKey, Value>>,
    match_expressions: Option<Vec<Requirement>>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "WrittenRequirement")]
struct Requirement(Expression);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRequirement {
    key: LabelKey,
    operator: Operator,
    values: Option<Vec<Value>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// A label's key: a name, after an optional DNS domain and a slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct LabelKey(String);

/// A label's value: a name, or empty.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct Value(String);

impl NodeSelector {
    pub(super) fn matches(&self, labels: &Labels) -> bool {
        self.0.matches(labels)
    }
}

impl TryFrom<WrittenSelector> for NodeSelector {
    type Error = &'static str;

    fn try_from(written: WrittenSelector) -> Result<Self, Self::Error> {
        let WrittenSelector {
            match_labels,
            match_expressions,
        } = written;
        let equal = match_labels.unwrap_or_default().into_iter();
        let equal = equal.map(|(LabelKey(key), Value(value))| Expression::Equal(key, value));
        let required = match_expressions.unwrap_or_default().into_iter();
        let selector: Selector = equal
            .chain(required.map(|Requirement(expression)| expression))
            .collect();
        if selector.selects_all() {
            return Err("would select every node: matchLabels or matchExpressions must be given");
        }
        Ok(Self(selector))
    }
}

impl TryFrom<LabelSelector> for NodeSelector {
    type Error = String;

    /// By the same rules as one of ours; a `LabelSelector` is what Koordinator reads, unknown members dropped.
    fn try_from(selector: LabelSelector) -> Result<Self, String> {
        let LabelSelector {
            match_labels,
            match_expressions,
        } = selector;
        let labels = match_labels.unwrap_or_default().into_iter();
        let labels = labels.map(|(key, value)| Ok((LabelKey::try_from(key)?, Value::try_from(value)?)));
        let required = match_expressions.unwrap_or_default().into_iter();
        let written = WrittenSelector {
            match_labels: Some(labels.collect::<Result<_, String>>()?),
            match_expressions: Some(required.map(Requirement::try_from).collect::<Result<_, _>>()?),
        };
        Ok(Self::try_from(written)?)
    }
}

impl TryFrom<LabelSelectorRequirement> for Requirement {
    type Error = String;

    fn try_from(requirement: LabelSelectorRequirement) -> Result<Self, String> {
        let LabelSelectorRequirement {
            key,
            operator,
            values,
        } = requirement;
        let operator = match operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return Err(format!("{operator:?} is not an operator")),
        };
        let values = values.unwrap_or_default().into_iter().map(Value::try_from);
        Ok(Self::try_from(WrittenRequirement {
            key: LabelKey::try_from(key)?,
            operator,
            values: Some(values.collect::<Result<_, _>>()?),
        })?)
    }
}

impl TryFrom<WrittenRequirement> for Requirement {
    type Error = &'static str;

    fn try_from(written: WrittenRequirement) -> Result<Self, Self::Error> {
        let WrittenRequirement {
            key: LabelKey(key),
            operator,
            values,
        } = written;
        let values = values.unwrap_or_default();
        let has_values = !values.is_empty();
        let values = values.into_iter().map(|Value(value)| value).collect();
        match operator {
            Operator::In | Operator::NotIn if !has_values => {
                Err("values: operators In and NotIn need at least one")
            }
            Operator::Exists | Operator::DoesNotExist if has_values => {
                Err("values: operators Exists and DoesNotExist take none")
            }
            Operator::In => Ok(Self(Expression::In(key, values))),
            Operator::NotIn => Ok(Self(Expression::NotIn(key, values))),
            Operator::Exists => Ok(Self(Expression::Exists(key))),
            Operator::DoesNotExist => Ok(Self(Expression::DoesNotExist(key))),
        }
    }
}

impl TryFrom<String> for LabelKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (prefix, name) = match text.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, text.as_str()),
        };
        if prefix.is_none_or(is_domain) && is_name(name) {
            Ok(Self(text))
        } else {
            Err(format!("{text:?} is not the key of a label"))
        }
    }
}

impl TryFrom<String> for Value {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() || is_name(&text) {
            Ok(Self(text))
        } else {
            Err(format!("{text:?} is not the value of a label"))
        }
    }
}

fn is_name(text: &str) -> bool {
    let ends_well = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    text.len() <= LONGEST_NAME
        && ends_well(text.chars().next())
        && ends_well(text.chars().next_back())
        && text
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
}

fn is_domain(text: &str) -> bool {
    let is_lower = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    text.len() <= LONGEST_PREFIX
        && text.split('.').all(|label| {
            label.starts_with(is_lower)
                && label.ends_with(is_lower)
                && label
                    .chars()
                    .all(|character| is_lower(character) || character == '-')
        })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(text: &str) -> Result<NodeSelector, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[rstest]
    #[case(r#"{"matchLabels":{"pool":"batch"}}"#, true)]
    #[case(r#"{"matchLabels":{"pool":"web"}}"#, false)]
    #[case(r#"{"matchLabels":{"pool":"batch","zone":"b"}}"#, false)]
    #[case(r#"{"matchLabels":{"example.com/empty":""}}"#, true)]
    #[case(
        r#"{"matchExpressions":[{"key":"pool","operator":"In","values":["web","batch"]}]}"#,
        true
    )]
    #[case(
        r#"{"matchExpressions":[{"key":"rack","operator":"In","values":["r1"]}]}"#,
        false
    )]
    #[case(
        r#"{"matchExpressions":[{"key":"pool","operator":"NotIn","values":["batch"]}]}"#,
        false
    )]
    // As in Kubernetes, a label that is not there is not in the set.
    #[case(
        r#"{"matchExpressions":[{"key":"rack","operator":"NotIn","values":["r1"]}]}"#,
        true
    )]
    #[case(r#"{"matchExpressions":[{"key":"pool","operator":"Exists"}]}"#, true)]
    #[case(
        r#"{"matchExpressions":[{"key":"pool","operator":"Exists","values":[]}]}"#,
        true
    )]
    #[case(
        r#"{"matchExpressions":[{"key":"rack","operator":"DoesNotExist","values":null}]}"#,
        true
    )]
    #[case(
        r#"{"matchLabels":{"pool":"batch"},"matchExpressions":[{"key":"zone","operator":"Exists"},{"key":"pool","operator":"DoesNotExist"}]}"#,
        false
    )]
    fn nodes_are_selected_as_kubernetes_selects(#[case] selector: &str, #[case] is_selected: bool) {
        let labels = [("pool", "batch"), ("zone", "a"), ("example.com/empty", "")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let selector = read(selector).unwrap();
        assert_eq!(selector.matches(&labels.into_iter().collect()), is_selected);
    }

    #[rstest]
    #[case("{}", "would select every node")]
    #[case(r#"{"matchLabels":{},"matchExpressions":null}"#, "would select every node")]
    #[case(r#"{"matchLabel":{"pool":"a"}}"#, "unknown field `matchLabel`")]
    #[case(r#"{"matchLabels":{"pool":1}}"#, "invalid type: integer `1`")]
    #[case(r#"{"matchLabels":{"a b":"c"}}"#, r#""a b" is not the key of a label"#)]
    #[case(
        r#"{"matchLabels":{"A.example/x":"c"}}"#,
        r#""A.example/x" is not the key of a label"#
    )]
    #[case(r#"{"matchLabels":{"a/b/c":"c"}}"#, r#""a/b/c" is not the key of a label"#)]
    #[case(r#"{"matchLabels":{"a":"-c"}}"#, r#""-c" is not the value of a label"#)]
    #[case(
        r#"{"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]}"#,
        "unknown variant `Gt`"
    )]
    #[case(r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#, "need at least one")]
    #[case(
        r#"{"matchExpressions":[{"key":"a","operator":"NotIn","values":[]}]}"#,
        "need at least one"
    )]
    #[case(
        r#"{"matchExpressions":[{"key":"a","operator":"Exists","values":["1"]}]}"#,
        "take none"
    )]
    #[case(r#"{"matchExpressions":[{"operator":"Exists"}]}"#, "missing field `key`")]
    #[case(
        r#"{"matchExpressions":[{"key":"a","operator":"Exists","value":"1"}]}"#,
        "unknown field `value`"
    )]
    fn what_is_no_selector_is_refused(#[case] selector: &str, #[case] reason: &str) {
        let error = read(selector).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn names_have_a_longest_length() {
        let labels = |length: usize| format!(r#"{{"matchLabels":{{"a":"{}"}}}}"#, "x".repeat(length));
        assert!(read(&labels(LONGEST_NAME)).is_ok() && read(&labels(LONGEST_NAME + 1)).is_err());
    }
}
