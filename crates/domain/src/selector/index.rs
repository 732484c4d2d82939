//! [`SelectorIndex`]: finds the selectors that match a set of labels among few candidates.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
};

use super::{Labels, Selector, choice::LabelChoice};

/// Selectors indexed by one required label each: the label that the fewest selectors require.
///
/// Building it is linear in the size of the selectors.
#[derive(Debug, Clone)]
pub struct SelectorIndex<'s, S> {
    selectors: &'s [S],
    by_key: BTreeMap<&'s str, Places<'s>>,
    /// Selectors that require no label.
    rest: Vec<usize>,
}

/// Positions of the selectors that are indexed by one key.
#[derive(Debug, Clone, Default)]
struct Places<'s> {
    by_value: HashMap<&'s str, Vec<usize>>,
    with_any_value: Vec<usize>,
}

impl<'s, S: Borrow<Selector>> SelectorIndex<'s, S> {
    /// Builds an index of these selectors; results are positions in `selectors`.
    pub fn new(selectors: &'s [S]) -> Self {
        let counts = Counts::new(selectors);
        let mut index = Self {
            selectors,
            by_key: BTreeMap::new(),
            rest: Vec::new(),
        };
        for (place, selector) in selectors.iter().enumerate() {
            let required = selector
                .borrow()
                .0
                .iter()
                .filter(|(_, choice)| !choice.may_be_absent);
            match required.min_by_key(|(key, choice)| counts.of_label(key, choice)) {
                None => index.rest.push(place),
                Some((key, choice)) => index.by_key.entry(key).or_default().add(place, choice),
            }
        }
        index
    }

    /// Positions of the selectors that match these labels, ascending.
    pub fn matching(&self, labels: &Labels) -> Vec<usize> {
        let matches = |place: &usize| {
            let selector = self.selectors.get(*place);
            selector.is_some_and(|selector| selector.borrow().matches(labels))
        };
        let mut found: Vec<usize> = self.requiring(labels).filter(matches).collect();
        found.sort_unstable();
        found
    }

    /// Positions of the selectors whose indexed label is among these labels, unordered; each may match them.
    pub fn requiring(&self, labels: &Labels) -> impl Iterator<Item = usize> {
        // Iterates over the smaller of the two maps.
        let by_key = (self.by_key.len() < labels.len()).then_some(&self.by_key);
        let by_label = by_key.is_none().then_some(labels);
        let by_key = by_key.into_iter().flatten();
        let of_keys = by_key.filter_map(|(key, places)| Some((places, labels.get(*key)?)));
        let by_label = by_label.into_iter().flatten();
        let of_labels = by_label.filter_map(|(key, value)| Some((self.by_key.get(key.as_str())?, value)));
        let found = of_keys.chain(of_labels);
        let found = found.flat_map(|(places, value)| places.with_value(value));
        found.chain([self.rest.as_slice()]).flatten().copied()
    }

    /// Positions of selectors that may match some labels which `selector` matches too, unordered.
    ///
    /// Omitted are only selectors that cannot match such labels, and selectors indexed by a key that `selector` does
    /// not have. If labels with only the keys of one selector match both, one of the two is therefore a candidate of
    /// the other.
    pub fn candidates(&self, selector: &Selector) -> impl Iterator<Item = usize> {
        let places = selector.0.iter().flat_map(|(key, choice)| {
            let places = self.by_key.get(key.as_str());
            places.into_iter().flat_map(|places| places.allowed_by(choice))
        });
        places.chain([self.rest.as_slice()]).flatten().copied()
    }
}

impl<'s> Places<'s> {
    fn add(&mut self, place: usize, choice: &'s LabelChoice) {
        match choice.listed() {
            None => self.with_any_value.push(place),
            Some(values) => {
                for value in values {
                    self.by_value.entry(value).or_default().push(place);
                }
            }
        }
    }

    fn with_value(&self, value: &str) -> impl Iterator<Item = &[usize]> {
        let listed = self.by_value.get(value).map(Vec::as_slice);
        listed.into_iter().chain([self.with_any_value.as_slice()])
    }

    /// Positions of selectors that require a value which the choice allows.
    fn allowed_by(&self, choice: &LabelChoice) -> Vec<&[usize]> {
        let mut places = vec![self.with_any_value.as_slice()];
        if let Some(values) = choice.listed() {
            let listed = values
                .iter()
                .filter_map(|value| self.by_value.get(value.as_str()));
            places.extend(listed.map(Vec::as_slice));
        } else {
            let allowed = self
                .by_value
                .iter()
                .filter(|(value, _)| choice.allows(Some(value)));
            places.extend(allowed.map(|(_, places)| places.as_slice()));
        }
        places
    }
}

/// Number of selectors that require each label.
struct Counts<'s> {
    values: HashMap<(&'s str, &'s str), usize>,
    keys: HashMap<&'s str, usize>,
}

impl<'s> Counts<'s> {
    fn new<S: Borrow<Selector>>(selectors: &'s [S]) -> Self {
        let mut counts = Self {
            values: HashMap::new(),
            keys: HashMap::new(),
        };
        for (key, choice) in selectors.iter().flat_map(|selector| &selector.borrow().0) {
            *counts.keys.entry(key).or_default() += 1;
            for value in choice.listed().into_iter().flatten() {
                *counts.values.entry((key, value)).or_default() += 1;
            }
        }
        counts
    }

    fn of_label(&self, key: &str, choice: &LabelChoice) -> usize {
        match choice.listed() {
            None => self.keys.get(key).copied().unwrap_or_default(),
            Some(values) => {
                let counts = values.iter().map(|value| self.values.get(&(key, value.as_str())));
                counts.flatten().sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::selector::example_of_both;

    fn choice() -> impl Strategy<Value = LabelChoice> {
        let values = prop::collection::btree_set("[12]", 0..3);
        (0..4, values).prop_map(|(kind, values)| match kind {
            0 => LabelChoice::is_in(values),
            1 => LabelChoice::not_in(values),
            2 => LabelChoice::exists(),
            _ => LabelChoice::does_not_exist(),
        })
    }

    fn selector() -> impl Strategy<Value = Selector> {
        prop::collection::btree_map("[a-c]", choice(), 0..4).prop_map(Selector)
    }

    proptest! {
        #[test]
        fn the_index_finds_what_matches(
            selectors in prop::collection::vec(selector(), 0..12),
            labels in prop::collection::btree_map("[a-d]", "[123]", 0..4),
        ) {
            let each = selectors.iter().enumerate().filter(|(_, selector)| selector.matches(&labels));
            let expected: Vec<usize> = each.map(|(place, _)| place).collect();
            prop_assert_eq!(SelectorIndex::new(&selectors).matching(&labels), expected);
        }

        #[test]
        fn overlapping_selectors_are_candidates_of_each_other(
            selectors in prop::collection::vec(selector(), 2..12),
        ) {
            let index = SelectorIndex::new(&selectors);
            for (one, selector) in selectors.iter().enumerate() {
                for (other, other_selector) in selectors.iter().enumerate().skip(one + 1) {
                    let Some(example) = example_of_both(selector, other_selector) else { continue };
                    let is_of = |selector: &Selector| example.keys().all(|key| selector.has_key(key));
                    if is_of(selector) || is_of(other_selector) {
                        let found = index.candidates(selector).any(|place| place == other)
                            || index.candidates(other_selector).any(|place| place == one);
                        prop_assert!(found, "{selector:?} {other_selector:?}");
                    }
                }
            }
        }
    }
}
