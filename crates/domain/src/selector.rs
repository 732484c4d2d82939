//! [`Selector`]: label selectors as values, the labels that they match, and labels that match two of them.
//!
//! ```text
//! Headroom configuration --> NodeSelector    rejects unknown members and a selector of everything
//!                                 |
//!                                 v
//! Kubernetes objects ------> LabelSelector --to_selector, to_koordinator_selector--> Selector --> matches, example_of_both
//! ```
//!
//! A [`Selector`] has one condition per key, so two of them are compared key by key. Time and memory are bounded by the
//! size of the written selectors, for any content.

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
    syntax::{key_faults, value_faults},
};

/// Labels of an object: values by key.
pub type Labels = BTreeMap<String, String>;

/// Conditions on an object's labels, at most one per key; all must hold.
///
/// Equal selectors match the same labels. The default selector matches all labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(BTreeMap<String, LabelChoice>);

impl Selector {
    /// Returns true if every set of labels matches.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the selector has a condition for the label `key`.
    pub fn has_key(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Returns true if the labels meet all conditions.
    pub fn matches(&self, labels: &Labels) -> bool {
        let mut conditions = self.0.iter();
        conditions.all(|(key, choice)| choice.allows(labels.get(key).map(String::as_str)))
    }

    /// Adds a condition to the existing ones of the key.
    fn require(&mut self, key: String, choice: LabelChoice) {
        let before = self.0.entry(key).or_insert_with(LabelChoice::anything);
        before.narrow(choice);
    }
}

/// Labels that match both selectors; `None` if no labels do.
///
/// The answer is exact. The example has as few labels as possible. Its values are taken from the selectors if they
/// list values; otherwise they are invented: valid label values that neither selector excludes.
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
