//! Says in words of bounded length why labels do not match a selector.

use std::{collections::BTreeSet, fmt::Write as _};

use super::{Labels, Selector, choice::LabelChoice};

/// Most values of a condition that a text lists.
const MOST_VALUES: usize = 3;
/// Most characters of a key or a value that a text shows. No valid value of a label is longer.
const LONGEST: usize = 63;

impl Selector {
    /// The first condition that the labels do not meet, as in `label "app" is "web" and must be "batch"`; `None` if the labels
    /// match. A text has at most five keys and values, and 63 characters of each.
    pub fn mismatch(&self, labels: &Labels) -> Option<String> {
        let mut conditions = self.0.iter();
        let value = |key: &str| labels.get(key).map(String::as_str);
        let (key, choice) = conditions.find(|(key, choice)| !choice.allows(value(key)))?;
        let found = value(key).map_or_else(|| "absent".to_owned(), quoted);
        Some(format!("label {} is {found} and {}", quoted(key), wanted(choice)))
    }
}

/// What a condition asks for.
fn wanted(choice: &LabelChoice) -> String {
    let (listed, excluded) = (choice.listed(), choice.excluded());
    let is_empty = |values: &BTreeSet<String>| values.is_empty();
    match (listed, excluded, choice.may_be_absent) {
        (Some(values), _, true) if is_empty(values) => "must be absent".to_owned(),
        (Some(values), _, false) if is_empty(values) => {
            "can have no value that meets all conditions".to_owned()
        }
        (Some(values), _, true) => format!("must be absent or {}", one_of(values)),
        (Some(values), _, false) => format!("must be {}", one_of(values)),
        (None, Some(values), false) if !is_empty(values) => {
            format!("must be there and not be {}", one_of(values))
        }
        (None, Some(values), true) if !is_empty(values) => format!("must not be {}", one_of(values)),
        (None, _, _) => "must be there".to_owned(),
    }
}

fn one_of(values: &BTreeSet<String>) -> String {
    let mut listed = values.iter().take(MOST_VALUES).map(|value| quoted(value));
    let Some(first) = listed.next() else {
        return String::new();
    };
    if values.len() == 1 {
        return first;
    }
    let mut text = format!("one of {first}");
    for value in listed {
        text += ", ";
        text += &value;
    }
    let more = values.len().saturating_sub(MOST_VALUES);
    if more > 0 {
        let _is_text = write!(text, " and {more} more").is_ok();
    }
    text
}

fn quoted(text: &str) -> String {
    let mut start: String = text.chars().take(LONGEST).collect();
    if start.len() < text.len() {
        start += "...";
    }
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::selector::LabelSelector;

    fn mismatch(selector: Value, labels: Value) -> Option<String> {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let labels: Labels = serde_json::from_value(labels).unwrap();
        let selector = selector.to_selector().unwrap();
        let text = selector.mismatch(&labels);
        assert_eq!(text.is_none(), selector.matches(&labels));
        text
    }

    #[rstest]
    #[case(json!({"matchLabels": {"app": "batch"}}), json!({"app": "web"}), r#"label "app" is "web" and must be "batch""#)]
    #[case(json!({"matchLabels": {"app": "batch"}}), json!({}), r#"label "app" is absent and must be "batch""#)]
    #[case(json!({"matchLabels": {"a": "1", "b": "2"}}), json!({"a": "1", "b": "1"}), r#"label "b" is "1" and must be "2""#)]
    #[case(
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2", "3", "4", "5"]}]}), json!({"a": "9"}),
        r#"label "a" is "9" and must be one of "1", "2", "3" and 2 more"#
    )]
    #[case(
        json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), json!({"a": "1"}),
        r#"label "a" is "1" and must not be "1""#
    )]
    #[case(
        json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), json!({}),
        r#"label "a" is absent and must be there"#
    )]
    #[case(
        json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), json!({"a": ""}),
        r#"label "a" is "" and must be absent"#
    )]
    #[case(
        json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "NotIn", "values": ["1"]}]}),
        json!({}), r#"label "a" is absent and must be there and not be "1""#
    )]
    #[case(
        json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["2"]}]}),
        json!({"a": "1"}), r#"label "a" is "1" and can have no value that meets all conditions"#
    )]
    fn the_condition_that_is_not_met_is_told(
        #[case] selector: Value,
        #[case] labels: Value,
        #[case] told: &str,
    ) {
        assert_eq!(mismatch(selector, labels).as_deref(), Some(told));
    }

    #[test]
    fn labels_that_match_have_none_and_a_text_is_bounded() {
        assert_eq!(mismatch(json!({}), json!({"a": "1"})), None);
        assert_eq!(
            mismatch(json!({"matchLabels": {"a": "1"}}), json!({"a": "1"})),
            None
        );
        let selector = LabelSelector {
            match_labels: [("k".repeat(5_000), "v".repeat(5_000))].into(),
            ..LabelSelector::default()
        };
        let selector = selector.to_koordinator_selector().unwrap();
        let text = selector
            .mismatch(&[("k".repeat(5_000), "w".repeat(5_000))].into())
            .unwrap();
        assert!(text.len() < 300 && text.contains("www...\""), "{text}");
    }
}
