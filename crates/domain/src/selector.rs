//! Label selectors as values: what labels they match, and which labels match two of them.
//!
//! ```text
//! configuration of ours ---> NodeSelector    refuses unknown members and a selector of everything
//!                                 |
//!                                 v
//! objects of Kubernetes ---> LabelSelector --to_selector, to_koordinator_selector--> Selector --> matches, example_of_both
//! ```
//!
//! A [`Selector`] has one condition per key, so two of them are compared key by key. Time and memory are bounded by the
//! size of the written selectors, whatever is in them.

mod choice;
mod index;
mod label_selector;
mod mismatch;
mod node_selector;
mod syntax;

use std::collections::BTreeMap;

use self::choice::LabelChoice;
pub use self::{
    index::SelectorIndex,
    label_selector::{LabelSelector, LabelSelectorRequirement, SelectorError},
    mismatch::Mismatch,
    node_selector::{NodeSelector, NodeSelectorError},
};

/// Labels of an object: values by key.
pub type Labels = BTreeMap<String, String>;

/// What an object's labels must be: all conditions hold, one for each key that is named.
///
/// Equal selectors match the same labels. The default one matches all labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(BTreeMap<String, LabelChoice>);

impl Selector {
    /// True if every set of labels matches.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a condition is set for the label of that key.
    pub fn has_key(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// True if the labels meet all conditions.
    pub fn matches(&self, labels: &Labels) -> bool {
        let mut conditions = self.0.iter();
        conditions.all(|(key, choice)| choice.allows(labels.get(key).map(String::as_str)))
    }

    /// Adds a condition to those that the key has already.
    fn require(&mut self, key: String, choice: LabelChoice) {
        let before = self.0.entry(key).or_insert_with(LabelChoice::anything);
        before.narrow(choice);
    }
}

/// Labels that match both selectors; `None` if there are none.
///
/// The answer is exact. The example has as few labels as possible. Its values are those of the selectors where these list
/// values, and else invented: valid values of a label that neither selector excludes.
pub fn example_of_both(one: &Selector, other: &Selector) -> Option<Labels> {
    let anything = LabelChoice::anything();
    let mut example = Labels::new();
    let mut add = |key: &String, one: &LabelChoice, other: &LabelChoice| {
        if !(one.may_be_absent && other.may_be_absent) {
            example.insert(key.clone(), one.common_value(other)?);
        }
        Some(())
    };
    for (key, choice) in &one.0 {
        add(key, choice, other.0.get(key).unwrap_or(&anything))?;
    }
    for (key, choice) in other.0.iter().filter(|(key, _)| !one.0.contains_key(*key)) {
        add(key, choice, &anything)?;
    }
    Some(example)
}

#[cfg(test)]
mod tests;
