//! [`Tree`]: an object of the manifests whose fields may depend on conditions of the chart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Start of a key of a map that stands for a template action, which renders further fields.
pub(super) const ACTION: &str = "{{";

/// Conditions of the chart that must all hold, as Helm expressions; empty if a field is unconditional.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct When(BTreeSet<String>);

/// A value of a field or an element of a list, with its conditions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variant {
    pub(super) when: When,
    pub(super) tree: Tree,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Scalar(Value),
    /// Variants of a field exclude each other.
    Map(BTreeMap<String, Vec<Variant>>),
    List(Vec<Variant>),
    /// Helm expression whose result is the value, on one line.
    Inline(String),
    /// Helm expression whose result is YAML, below the key.
    Block(String),
    /// Template lines that render elements of a list.
    Elements(Vec<String>),
}

/// An object of the manifests.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Object {
    pub(super) when: When,
    pub(super) tree: Tree,
}

impl When {
    pub(super) fn all<const N: usize>(conditions: [String; N]) -> Self {
        Self(conditions.into())
    }

    pub(super) fn is_always(&self) -> bool {
        self.0.is_empty()
    }

    /// These conditions without those that hold already.
    pub(super) fn within(&self, outer: &Self) -> Self {
        Self(self.0.difference(&outer.0).cloned().collect())
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// A condition that holds if one of these does not.
    pub(super) fn negated(&self) -> Self {
        Self::all([format!("not ({})", self.expression())])
    }

    /// All conditions as one Helm expression.
    pub(super) fn expression(&self) -> String {
        let all: Vec<&str> = self.0.iter().map(String::as_str).collect();
        match all.as_slice() {
            [one] => (*one).to_owned(),
            all => {
                let terms: Vec<String> = all.iter().map(|one| format!("({one})")).collect();
                format!("and {}", terms.join(" "))
            }
        }
    }
}

impl Variant {
    pub(super) fn always(tree: Tree) -> Self {
        Self {
            when: When::default(),
            tree,
        }
    }
}

impl From<&Value> for Tree {
    fn from(value: &Value) -> Self {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter();
                Self::Map(
                    fields
                        .map(|(key, value)| (key.clone(), vec![Variant::always(value.into())]))
                        .collect(),
                )
            }
            Value::Array(elements) => {
                let elements = elements.iter();
                Self::List(elements.map(|element| Variant::always(element.into())).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Self::Scalar(value.clone()),
        }
    }
}

impl Tree {
    /// Text of an unconditional field of a map.
    pub(super) fn text(&self, path: &[&str]) -> Option<&str> {
        let mut tree = self;
        for key in path {
            let Self::Map(fields) = tree else { return None };
            let [variant] = fields.get(*key)?.as_slice() else {
                return None;
            };
            tree = &variant.tree;
        }
        match tree {
            Self::Scalar(Value::String(text)) => Some(text),
            Self::Scalar(_)
            | Self::Map(_)
            | Self::List(_)
            | Self::Inline(_)
            | Self::Block(_)
            | Self::Elements(_) => None,
        }
    }

    /// First variant of a field, or an element by its index; maps that are absent are added.
    pub(super) fn at(&mut self, path: &[&str]) -> Option<&mut Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        let variants = match self {
            Self::Map(fields) => fields
                .entry((*first).to_owned())
                .or_insert_with(|| vec![Variant::always(Self::Map(BTreeMap::new()))]),
            Self::List(elements) => {
                let index: usize = first.parse().ok()?;
                return elements.get_mut(index)?.tree.at(rest);
            }
            Self::Scalar(_) | Self::Inline(_) | Self::Block(_) | Self::Elements(_) => return None,
        };
        variants.first_mut()?.tree.at(rest)
    }

    /// Sets a field of a map in all cases.
    pub(super) fn set(&mut self, key: &str, tree: Self) {
        self.set_if(key, When::default(), tree);
    }

    /// Sets a field of a map if the conditions hold.
    pub(super) fn set_if(&mut self, key: &str, when: When, tree: Self) {
        let Self::Map(fields) = self else { return };
        let variants = fields.entry(key.to_owned()).or_default();
        if when.is_always() {
            variants.clear();
        } else {
            exclude(variants, &when);
        }
        variants.push(Variant { when, tree });
    }

    /// Removes a field of a map if the conditions hold.
    pub(super) fn remove_if(&mut self, key: &str, when: &When) {
        let Self::Map(fields) = self else { return };
        if when.is_always() {
            fields.remove(key);
        } else if let Some(variants) = fields.get_mut(key) {
            exclude(variants, when);
        }
    }

    pub(super) fn push(&mut self, variant: Variant) {
        if let Self::List(elements) = self {
            elements.push(variant);
        }
    }
}

/// Restricts variants to the cases in which the conditions do not hold.
fn exclude(variants: &mut [Variant], when: &When) {
    let negated = when.negated();
    for variant in variants {
        variant.when.add(&negated);
    }
}
