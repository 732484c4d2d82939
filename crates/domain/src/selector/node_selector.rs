//! [`NodeSelector`]: selector of a node entry in the ConfigMap. Content that would silently select no node or every
//! node is rejected.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    LabelSelector, Labels, Selector, SelectorError,
    choice::LabelChoice,
    syntax::{key_faults, value_faults},
};

/// Selects nodes by their labels, never all nodes.
///
/// In JSON, unknown members, unknown operators, values that an operator does not accept, and invalid label keys and
/// values are rejected. The error names the value; the caller adds its path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenSelector")]
pub struct NodeSelector(Selector);

/// The selector is not valid in a node entry.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NodeSelectorError {
    /// The selector has no condition.
    #[error("would select every node: set matchLabels or matchExpressions")]
    Everything,
    /// The text is not a valid label key.
    #[error("{0:?} is not a valid label key")]
    Key(String),
    /// The text is not a valid label value.
    #[error("{0:?} is not a valid label value")]
    Value(String),
    /// `In` or `NotIn` has no values.
    #[error("values: operators In and NotIn need at least one")]
    MissingValues,
    /// `Exists` or `DoesNotExist` has values.
    #[error("values: operators Exists and DoesNotExist accept none")]
    NeedlessValues,
    /// Kubernetes cannot convert the selector.
    #[error(transparent)]
    Unconvertible(#[from] SelectorError),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct WrittenSelector {
    match_labels: Option<BTreeMap<LabelKey, LabelValue>>,
    match_expressions: Option<Vec<Condition>>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "WrittenRequirement")]
struct Condition {
    key: String,
    choice: LabelChoice,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRequirement {
    key: LabelKey,
    operator: Operator,
    values: Option<Vec<LabelValue>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Key of a label: a name, after an optional DNS domain and a slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct LabelKey(String);

/// Value of a label: a name, or empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct LabelValue(String);

impl NodeSelector {
    /// Returns true if it selects a node with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.matches(labels)
    }

    /// Conditions of the selector, for comparison with another one.
    pub fn selector(&self) -> &Selector {
        &self.0
    }

    fn unless_everything(selector: Selector) -> Result<Self, NodeSelectorError> {
        if selector.is_everything() {
            return Err(NodeSelectorError::Everything);
        }
        Ok(Self(selector))
    }
}

impl TryFrom<WrittenSelector> for NodeSelector {
    type Error = NodeSelectorError;

    fn try_from(written: WrittenSelector) -> Result<Self, NodeSelectorError> {
        let WrittenSelector {
            match_labels,
            match_expressions,
        } = written;
        let mut selector = Selector::default();
        for (LabelKey(key), LabelValue(value)) in match_labels.unwrap_or_default() {
            selector.require(key, LabelChoice::is_in([value].into()));
        }
        for Condition { key, choice } in match_expressions.unwrap_or_default() {
            selector.require(key, choice);
        }
        Self::unless_everything(selector)
    }
}

impl TryFrom<&LabelSelector> for NodeSelector {
    type Error = NodeSelectorError;

    /// Converts by Kubernetes' rules, which reject the same content as the strict reading except unknown members.
    fn try_from(selector: &LabelSelector) -> Result<Self, NodeSelectorError> {
        Self::unless_everything(selector.to_selector()?)
    }
}

impl TryFrom<WrittenRequirement> for Condition {
    type Error = NodeSelectorError;

    fn try_from(written: WrittenRequirement) -> Result<Self, NodeSelectorError> {
        let WrittenRequirement {
            key: LabelKey(key),
            operator,
            values,
        } = written;
        let values = values.unwrap_or_default();
        let has_values = !values.is_empty();
        let values = values.into_iter().map(|LabelValue(value)| value).collect();
        let choice = match operator {
            Operator::In | Operator::NotIn if !has_values => return Err(NodeSelectorError::MissingValues),
            Operator::Exists | Operator::DoesNotExist if has_values => {
                return Err(NodeSelectorError::NeedlessValues);
            }
            Operator::In => LabelChoice::is_in(values),
            Operator::NotIn => LabelChoice::not_in(values),
            Operator::Exists => LabelChoice::exists(),
            Operator::DoesNotExist => LabelChoice::does_not_exist(),
        };
        Ok(Self { key, choice })
    }
}

impl TryFrom<String> for LabelKey {
    type Error = NodeSelectorError;

    fn try_from(text: String) -> Result<Self, NodeSelectorError> {
        match key_faults(&text) {
            None => Ok(Self(text)),
            Some(_) => Err(NodeSelectorError::Key(text)),
        }
    }
}

impl TryFrom<String> for LabelValue {
    type Error = NodeSelectorError;

    fn try_from(text: String) -> Result<Self, NodeSelectorError> {
        match value_faults(&text) {
            None => Ok(Self(text)),
            Some(_) => Err(NodeSelectorError::Value(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{super::syntax::LONGEST_NAME, *};

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
    // As in Kubernetes, an absent label is not in the set.
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
    #[case(r#"{"matchLabels":{"a b":"c"}}"#, r#""a b" is not a valid label key"#)]
    #[case(
        r#"{"matchLabels":{"A.example/x":"c"}}"#,
        r#""A.example/x" is not a valid label key"#
    )]
    #[case(r#"{"matchLabels":{"a/b/c":"c"}}"#, r#""a/b/c" is not a valid label key"#)]
    #[case(r#"{"matchLabels":{"a":"-c"}}"#, r#""-c" is not a valid label value"#)]
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
        "accept none"
    )]
    #[case(r#"{"matchExpressions":[{"operator":"Exists"}]}"#, "missing field `key`")]
    #[case(
        r#"{"matchExpressions":[{"key":"a","operator":"Exists","value":"1"}]}"#,
        "unknown field `value`"
    )]
    fn invalid_selectors_are_rejected(#[case] selector: &str, #[case] reason: &str) {
        let error = read(selector).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn label_values_have_a_maximum_length() {
        let labels = |length: usize| format!(r#"{{"matchLabels":{{"a":"{}"}}}}"#, "x".repeat(length));
        assert!(read(&labels(LONGEST_NAME)).is_ok() && read(&labels(LONGEST_NAME + 1)).is_err());
    }
}
