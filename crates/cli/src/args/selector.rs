//! [`NodeLabelSelector`]: parses a label selector as kubectl's `-l`: `a=b,c!=d,e in (x, y),f notin (z),g,!h`.

use std::str::FromStr;

use headroom_domain::selector::{LabelSelector, LabelSelectorRequirement, Selector, SelectorError};

/// Selector of nodes by label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLabelSelector(pub Selector);

/// The text is not a label selector.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SelectorTextError {
    /// A requirement has an unknown form.
    #[error(
        "{0:?} is not one of KEY=VALUE, KEY!=VALUE, KEY in (VALUE,...), KEY notin (VALUE,...), KEY and !KEY"
    )]
    Form(String),
    /// A key or value is not valid for a label.
    #[error(transparent)]
    Label(#[from] SelectorError),
}

impl FromStr for NodeLabelSelector {
    type Err = SelectorTextError;

    fn from_str(text: &str) -> Result<Self, SelectorTextError> {
        let parts = requirements(text).into_iter();
        let selector = LabelSelector {
            match_expressions: parts.map(requirement).collect::<Result<_, _>>()?,
            ..LabelSelector::default()
        };
        Ok(Self(selector.to_selector()?))
    }
}

/// Splits the text at commas outside brackets.
fn requirements(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let parts = text.split(|character| {
        match character {
            '(' => is_inside = true,
            ')' => is_inside = false,
            _ => {}
        }
        character == ',' && !is_inside
    });
    parts.map(str::trim).collect()
}

fn requirement(text: &str) -> Result<LabelSelectorRequirement, SelectorTextError> {
    let of = |key: &str, operator: &str, values: Vec<String>| LabelSelectorRequirement {
        key: key.trim().to_owned(),
        operator: operator.to_owned(),
        values,
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(key) = text.strip_prefix('!').filter(|key| !key.contains('=')) {
        return Ok(of(key, "DoesNotExist", Vec::new()));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(of(key, "NotIn", one(value)));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(of(key, "In", one(value)));
    }
    let no_form = || SelectorTextError::Form(text.to_owned());
    let Some((key, rest)) = text.split_once(char::is_whitespace) else {
        return if text.is_empty() {
            Err(no_form())
        } else {
            Ok(of(text, "Exists", Vec::new()))
        };
    };
    let rest = rest.trim();
    let (operator, list) = match (rest.strip_prefix("notin"), rest.strip_prefix("in")) {
        (Some(list), _) => ("NotIn", list),
        (None, Some(list)) => ("In", list),
        (None, None) => return Err(no_form()),
    };
    let list = list
        .trim()
        .strip_prefix('(')
        .and_then(|list| list.strip_suffix(')'));
    let values = list.ok_or_else(no_form)?.split(',');
    Ok(of(
        key,
        operator,
        values.map(|value| value.trim().to_owned()).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use headroom_domain::selector::Labels;

    use super::*;

    #[test]
    fn a_selector_matches_as_in_kubectl() {
        let labels = |pairs: &[(&str, &str)]| -> Labels {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let node = labels(&[("pool", "batch"), ("zone", "a"), ("example.com/gpu", "")]);
        for (text, is_match) in [
            ("pool=batch", true),
            ("pool==batch", true),
            ("pool = batch , zone=a", true),
            ("pool!=batch", false),
            ("other!=x", true),
            ("zone in (a, b),pool", true),
            ("zone notin (a,b)", false),
            ("!zone", false),
            ("!other,example.com/gpu", true),
            ("example.com/gpu=", true),
            ("pool=web", false),
        ] {
            let NodeLabelSelector(selector) = text.parse().unwrap();
            assert_eq!(selector.matches(&node), is_match, "{text}");
        }
    }

    #[test]
    fn invalid_selectors_are_refused() {
        for text in [
            "",
            "pool=a,",
            "zone within (a)",
            "zone in a",
            "po ol=x",
            "a=b=c",
            "-=x",
        ] {
            assert!(text.parse::<NodeLabelSelector>().is_err(), "{text}");
        }
    }
}
