//! [`Mismatch`]: reason why labels do not match a selector, as text of bounded length.

use std::{collections::BTreeSet, fmt};

use super::{Labels, Selector, choice::LabelChoice};

/// Most values of a condition in the text.
const MOST_VALUES: usize = 3;
/// Most characters of a key or a value in the text; no valid label value is longer.
const LONGEST: usize = 63;

/// Quotation mark around keys and values.
const QUOTE: &str = "\"";

/// First condition of a selector that labels do not meet. Its text is like `label "app" is "web" and must be
/// "batch"`, with at most five keys and values of at most 63 characters each.
#[derive(Debug, Clone, Copy)]
pub struct Mismatch<'a> {
    key: &'a str,
    found: Option<&'a str>,
    choice: &'a LabelChoice,
}

/// Text of the required states of a label.
struct WantedLabel<'a>(&'a LabelChoice);

/// Text of up to three values of a condition.
struct OneOf<'a>(&'a BTreeSet<String>);

/// First characters of a key or a value, in quotes.
struct QuotedStart<'a>(&'a str);

impl Selector {
    /// First condition that the labels do not meet; `None` if they match.
    pub fn mismatch<'a>(&'a self, labels: &'a Labels) -> Option<Mismatch<'a>> {
        let mut conditions = self.0.iter();
        conditions.find_map(|(key, choice)| {
            let found = labels.get(key).map(String::as_str);
            let mismatch = Mismatch { key, found, choice };
            (!choice.allows(found)).then_some(mismatch)
        })
    }
}

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, found, choice } = self;
        let (key, wanted) = (QuotedStart(key), WantedLabel(choice));
        match found {
            Some(found) => write!(f, "label {key} is {} and {wanted}", QuotedStart(found)),
            None => write!(f, "label {key} is absent and {wanted}"),
        }
    }
}

impl fmt::Display for WantedLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(choice) = self;
        let (listed, excluded) = (choice.listed(), choice.excluded());
        match (listed, excluded, choice.may_be_absent) {
            (Some(values), _, true) if values.is_empty() => f.write_str("must be absent"),
            (Some(values), _, false) if values.is_empty() => {
                f.write_str("can have no value that meets all conditions")
            }
            (Some(values), _, true) => write!(f, "must be absent or {}", OneOf(values)),
            (Some(values), _, false) => write!(f, "must be {}", OneOf(values)),
            (None, Some(values), false) if !values.is_empty() => {
                write!(f, "must be present and not be {}", OneOf(values))
            }
            (None, Some(values), true) if !values.is_empty() => write!(f, "must not be {}", OneOf(values)),
            (None, _, _) => f.write_str("must be present"),
        }
    }
}

impl fmt::Display for OneOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(values) = self;
        if values.len() > 1 {
            f.write_str("one of ")?;
        }
        for (index, value) in values.iter().take(MOST_VALUES).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}", QuotedStart(value))?;
        }
        match values.len().saturating_sub(MOST_VALUES) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for QuotedStart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        // Keys and values of labels are such words, and every new pod is compared with every profile, so this path is
        // fast.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        if text.len() <= LONGEST && text.bytes().all(is_plain) {
            return [QUOTE, text, QUOTE]
                .into_iter()
                .try_for_each(|part| f.write_str(part));
        }
        match text.char_indices().nth(LONGEST) {
            None => write!(f, "{text:?}"),
            Some((end, _)) => write!(f, "{:?}", format!("{}...", text.get(..end).unwrap_or_default())),
        }
    }
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
        let text = selector.mismatch(&labels).map(|mismatch| mismatch.to_string());
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
        r#"label "a" is absent and must be present"#
    )]
    #[case(
        json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), json!({"a": ""}),
        r#"label "a" is "" and must be absent"#
    )]
    #[case(
        json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "NotIn", "values": ["1"]}]}),
        json!({}), r#"label "a" is absent and must be present and not be "1""#
    )]
    #[case(
        json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["2"]}]}),
        json!({"a": "1"}), r#"label "a" is "1" and can have no value that meets all conditions"#
    )]
    fn the_text_names_the_first_unmet_condition(
        #[case] selector: Value,
        #[case] labels: Value,
        #[case] expected: &str,
    ) {
        assert_eq!(mismatch(selector, labels).as_deref(), Some(expected));
    }

    #[test]
    fn matching_labels_have_no_mismatch_and_texts_are_bounded() {
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
        let labels = [("k".repeat(5_000), "w".repeat(5_000))].into();
        let text = selector.mismatch(&labels).unwrap();
        let text = text.to_string();
        assert!(text.len() < 300 && text.contains("www...\""), "{text}");
    }
}
