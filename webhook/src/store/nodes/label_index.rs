//! [`LabelIndex`]: which Nodes have which label, so that a selector is answered without a look at each Node.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use headroom_domain::selector::{Labels, Selector, Term};

/// Names of Nodes by key and value of a label.
#[derive(Debug, Default)]
pub(super) struct LabelIndex {
    keys: HashMap<Box<str>, Values>,
}

/// The Nodes with a label of one key.
#[derive(Debug, Default)]
struct Values {
    names: HashMap<Box<str>, HashSet<Arc<str>>>,
    /// How many Nodes there are with one of the values.
    count: usize,
}

impl LabelIndex {
    /// Replaces the labels of a Node. The same labels again cost a comparison.
    pub(super) fn update(&mut self, node: &str, before: Option<&Labels>, now: Option<&Labels>) {
        if before == now {
            return;
        }
        let (none, name) = (Labels::new(), Arc::from(node));
        let (before, now) = (before.unwrap_or(&none), now.unwrap_or(&none));
        for (key, value) in before.iter().filter(|(key, value)| now.get(*key) != Some(*value)) {
            self.remove(node, key, value);
        }
        for (key, value) in now.iter().filter(|(key, value)| before.get(*key) != Some(*value)) {
            self.insert(&name, key, value);
        }
    }

    /// The names of Nodes among which are all that the selector matches: those that meet its most selective term. `None` if
    /// it has no term that an index can answer.
    pub(super) fn candidates(&self, selector: &Selector) -> Option<impl Iterator<Item = &str>> {
        let term = selector.terms().min_by_key(|term| self.count(*term))?;
        let (key, listed) = match term {
            Term::Values(key, values) => (key, Some(values)),
            Term::Key(key) => (key, None),
        };
        let with_key = self.keys.get(key);
        let with_value = listed.into_iter().flatten();
        let with_value = with_value.filter_map(move |value| with_key?.names.get(value.as_str()));
        let with_any = with_key.filter(|_| listed.is_none());
        let with_any = with_any.into_iter().flat_map(|values| values.names.values());
        Some(with_value.chain(with_any).flatten().map(AsRef::as_ref))
    }

    /// How many Nodes meet a term.
    fn count(&self, term: Term<'_>) -> usize {
        let (Term::Values(key, _) | Term::Key(key)) = term;
        let Some(values) = self.keys.get(key) else {
            return 0;
        };
        match term {
            Term::Key(_) => values.count,
            Term::Values(_, listed) => {
                let names = listed.iter().filter_map(|value| values.names.get(value.as_str()));
                names.map(HashSet::len).sum()
            }
        }
    }

    fn insert(&mut self, name: &Arc<str>, key: &str, value: &str) {
        if !self.keys.contains_key(key) {
            self.keys.insert(key.into(), Values::default());
        }
        let Some(values) = self.keys.get_mut(key) else {
            return;
        };
        if !values.names.contains_key(value) {
            values.names.insert(value.into(), HashSet::new());
        }
        if let Some(names) = values.names.get_mut(value) {
            values.count += usize::from(names.insert(Arc::clone(name)));
        }
    }

    /// Drops what is empty then: labels of Nodes come and go.
    fn remove(&mut self, node: &str, key: &str, value: &str) {
        let Some(values) = self.keys.get_mut(key) else {
            return;
        };
        let Some(names) = values.names.get_mut(value) else {
            return;
        };
        values.count -= usize::from(names.remove(node));
        if names.is_empty() {
            values.names.remove(value);
        }
        if values.names.is_empty() {
            self.keys.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use headroom_domain::selector::LabelSelector;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn selector(written: Value) -> Selector {
        let written: LabelSelector = serde_json::from_value(written).unwrap();
        written.to_selector().unwrap()
    }

    fn labels(text: &str) -> Labels {
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    fn found(index: &LabelIndex, selector: &Selector) -> Option<Vec<String>> {
        let mut names: Vec<String> = index.candidates(selector)?.map(str::to_owned).collect();
        names.sort();
        Some(names)
    }

    #[test]
    fn the_most_selective_term_decides() {
        let mut index = LabelIndex::default();
        for (node, written) in [
            ("n1", "os=linux pool=a"),
            ("n2", "os=linux pool=b"),
            ("n3", "os=linux"),
        ] {
            index.update(node, None, Some(&labels(written)));
        }
        let one = selector(json!({"matchLabels": {"os": "linux", "pool": "a"}}));
        assert_eq!(found(&index, &one).unwrap(), ["n1"]);
        let exists = json!({"key": "pool", "operator": "Exists"});
        let some = selector(json!({"matchLabels": {"os": "linux"}, "matchExpressions": [exists]}));
        assert_eq!(found(&index, &some).unwrap(), ["n1", "n2"]);
        let none = selector(json!({"matchLabels": {"os": "linux", "zone": "z"}}));
        assert_eq!(found(&index, &none).unwrap(), [""; 0]);
        let absent = selector(json!({"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]}));
        assert_eq!(found(&index, &absent), None, "no index knows who lacks a label");
        index.update("n1", Some(&labels("os=linux pool=a")), None);
        index.update("n2", Some(&labels("os=linux pool=b")), Some(&labels("os=linux")));
        index.update("n2", Some(&labels("os=linux")), None);
        index.update("n3", Some(&labels("os=linux")), None);
        assert!(index.keys.is_empty(), "nothing is left of Nodes that are gone");
    }

    fn node_labels() -> impl Strategy<Value = Labels> {
        let pairs = prop::collection::btree_map("[a-c]", "[1-3]", 0..4);
        pairs.prop_map(|pairs| pairs.into_iter().collect())
    }

    fn written_selector() -> impl Strategy<Value = Value> {
        let operator = prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
        let expression = ("[a-c]", operator, prop::collection::btree_set("[1-3]", 1..3));
        let expression = expression.prop_map(|(key, operator, values)| match operator {
            "In" | "NotIn" => json!({"key": key, "operator": operator, "values": values}),
            _ => json!({"key": key, "operator": operator}),
        });
        prop::collection::vec(expression, 0..4).prop_map(|list| json!({"matchExpressions": list}))
    }

    proptest! {
        #[test]
        fn no_node_that_a_selector_matches_is_left_out_and_none_comes_twice(
            changes in prop::collection::vec((0..6_usize, prop::option::of(node_labels())), 0..30),
            written in written_selector(),
        ) {
            let (mut index, mut nodes) = (LabelIndex::default(), BTreeMap::<String, Labels>::new());
            for (node, now) in changes {
                let node = format!("n{node}");
                index.update(&node, nodes.get(&node), now.as_ref());
                match now {
                    Some(now) => nodes.insert(node, now),
                    None => nodes.remove(&node),
                };
            }
            let selector = selector(written);
            let matching = nodes.iter().filter(|(_, labels)| selector.matches(labels));
            let matching: Vec<&String> = matching.map(|(name, _)| name).collect();
            if let Some(found) = found(&index, &selector) {
                prop_assert!(matching.iter().all(|name| found.contains(name)));
                let mut once = found.clone();
                once.dedup();
                prop_assert_eq!(once, found);
            }
        }
    }
}
