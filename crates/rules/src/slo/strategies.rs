//! Finds the entries of Koordinator's keys that select a node. If two entries of one key select it, only their order
//! decides; Koordinator refuses such labels.
//!
//! An unreadable key is skipped as if it were absent.

use headroom_domain::selector::{Labels, NodeSelector};

use super::{
    Data,
    decode::{self, Reading},
    document::{Document, Entry},
    envelope,
    switches::{CHECKS_ALL_KEYS, QOS_WITHOUT_SYSTEM},
    table::{KEYS, Key, QOS, SYSTEM},
};
use crate::switch::{Switch, Switches};

/// Entries of the keys that can select a node twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strategies(Vec<KeyEntries>);

/// A key with more than one entry that selects the same node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Name of the key in the ConfigMap.
    pub key: &'static str,
    /// Names of the entries, in order; empty for entries without a name.
    pub entries: Vec<String>,
    places: Vec<usize>,
}

/// Entries of one key, at least two.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyEntries {
    key: &'static str,
    /// Switch that must be on for the key to count; `None` if Koordinator compares it with nodes as well.
    needs: Option<&'static Switch>,
    entries: Vec<StrategyEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StrategyEntry {
    name: String,
    selector: NodeSelector,
}

impl Strategies {
    /// Keys with entries, in the order in which conflicts are reported: Koordinator's own come first.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        ordered_keys().map(|key| key.name)
    }

    /// Reads the content of the ConfigMap.
    pub fn read(data: &Data) -> Self {
        let has_system = document(&SYSTEM, data).is_some();
        let strategies = ordered_keys().filter_map(|key| {
            let written = document(key, data)?.entries;
            let entries: Option<Vec<StrategyEntry>> = written.into_iter().map(StrategyEntry::new).collect();
            let entries = entries.filter(|entries| entries.len() > 1)?;
            Some(KeyEntries {
                key: key.name,
                needs: needed_switch(key, has_system),
                entries,
            })
        });
        Self(strategies.collect())
    }

    /// Returns true if no node can be in conflict, whatever its labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the conflicts of a node with these labels, in the keys that count under these switches.
    pub fn conflicts(&self, labels: &Labels, switches: &Switches) -> impl Iterator<Item = Conflict> {
        self.counting(switches)
            .filter_map(|strategy| strategy.conflict(labels))
    }

    /// Returns the first conflict that a change of labels creates or extends. An existing conflict that gets no
    /// further entries is not caused by the change.
    pub fn grown(&self, before: &Labels, now: &Labels, switches: &Switches) -> Option<Conflict> {
        self.counting(switches).find_map(|strategy| {
            let conflict = strategy.conflict(now)?;
            let before = strategy.conflict(before);
            let before = before.map(|conflict| conflict.places).unwrap_or_default();
            let has_grown = conflict.places.iter().any(|place| !before.contains(place));
            has_grown.then_some(conflict)
        })
    }

    fn counting(&self, switches: &Switches) -> impl Iterator<Item = &KeyEntries> {
        let counts = |strategy: &&KeyEntries| strategy.needs.is_none_or(|needed| switches.is_on(needed));
        self.0.iter().filter(counts)
    }
}

impl KeyEntries {
    fn conflict(&self, labels: &Labels) -> Option<Conflict> {
        let Self { key, entries, .. } = self;
        let (places, entries): (Vec<usize>, Vec<String>) = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.selector.matches(labels))
            .map(|(place, entry)| (place, entry.name.clone()))
            .unzip();
        (places.len() > 1).then_some(Conflict { key, entries, places })
    }
}

impl Conflict {
    /// Koordinator's message of the denial, with its misspellings.
    pub fn koordinator_message(&self, node: &str) -> String {
        envelope::entries(self.key, self.entries.iter().map(String::as_str), Some(node))
    }
}

impl StrategyEntry {
    /// Returns `None` if the selector is missing or invalid for Kubernetes.
    fn new(entry: Entry) -> Option<Self> {
        let selector = NodeSelector::try_from(entry.written_selector.as_ref()?).ok()?;
        Some(Self {
            name: entry.name,
            selector,
        })
    }
}

/// Switch that lets the check of the ConfigMap compare a key with nodes. Koordinator ignores the QoS classes if there
/// are no kernel settings.
fn needed_switch(key: &Key, has_system: bool) -> Option<&'static Switch> {
    if !key.is_checked_upstream {
        Some(&CHECKS_ALL_KEYS)
    } else if key.name == QOS.name && !has_system {
        Some(&QOS_WITHOUT_SYSTEM)
    } else {
        None
    }
}

/// Every key; those that Koordinator checks come first.
fn ordered_keys() -> impl Iterator<Item = &'static Key> {
    let of = |is_upstream: bool| {
        KEYS.into_iter()
            .filter(move |key| key.is_checked_upstream == is_upstream)
    };
    of(true).chain(of(false))
}

/// Returns the document of a key if it exists and is completely valid.
fn document(key: &'static Key, data: &Data) -> Option<Document> {
    let Reading { document, faults, .. } = decode::read(key, data.get(key.name)?).ok()?;
    faults.is_empty().then_some(document)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use headroom_domain::names;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn labels(keys: &str) -> Labels {
        keys.chars()
            .map(|key| (key.to_string(), "1".to_owned()))
            .collect()
    }

    /// An entry that selects nodes with the label of its name.
    fn entry(name: &str) -> Value {
        json!({"name": name, "nodeSelector": {"matchLabels": {name: "1"}}})
    }

    fn read(key: &str, document: &Value) -> Strategies {
        Strategies::read(&BTreeMap::from([(key.to_owned(), document.to_string())]))
    }

    fn colocation(entries: &[&str]) -> Strategies {
        let entries: Value = entries.iter().map(|name| entry(name)).collect();
        read(names::COLOCATION_CONFIG, &json!({"nodeConfigs": entries}))
    }

    fn grown(before: &str, now: &str) -> Option<String> {
        let conflict =
            colocation(&["a", "b", "c"]).grown(&labels(before), &labels(now), &Switches::default())?;
        Some(conflict.entries.concat())
    }

    #[rstest]
    #[case("", "a", None)]
    #[case("a", "b", None)]
    #[case("a", "ab", Some("ab"))]
    #[case("", "ab", Some("ab"))]
    #[case("ab", "abx", None)]
    #[case("ab", "abc", Some("abc"))]
    #[case("ab", "ac", Some("ac"))]
    #[case("abc", "ab", None)]
    #[case("abc", "a", None)]
    fn a_conflict_grows_with_a_new_entry(
        #[case] before: &str,
        #[case] now: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(grown(before, now).as_deref(), expected);
    }

    #[test]
    fn members_are_read_in_any_case_and_unknown_ones_ignored() {
        let document = json!({"NODECONFIGS": [
            {"Name": "a", "nodeselector": {"MatchLabels": {"a": "1"}, "other": 1}, "enable": true},
            {"name": null, "nodeSelector": {"matchexpressions": [{"Key": "b", "Operator": "Exists"}]}},
        ], "later": []});
        let strategies = read(names::COLOCATION_CONFIG, &document);
        let conflicts: Vec<Conflict> = strategies
            .conflicts(&labels("ab"), &Switches::default())
            .collect();
        assert_eq!(conflicts.len(), 1);
        assert_eq!(conflicts[0].entries, ["a", ""]);
    }

    #[rstest]
    #[case::no_list(json!({"nodeConfigs": {}}))]
    #[case::no_object(json!({"nodeConfigs": [entry("a"), entry("b"), 1]}))]
    #[case::name(json!({"nodeConfigs": [entry("a"), entry("b"), {"name": 1, "nodeSelector": {"matchLabels": {"c": "1"}}}]}))]
    #[case::no_selector(json!({"nodeConfigs": [entry("a"), entry("b"), null]}))]
    #[case::empty_selector(json!({"nodeConfigs": [entry("a"), entry("b"), {"nodeSelector": {}}]}))]
    #[case::label_value(json!({"nodeConfigs": [entry("a"), entry("b"), {"nodeSelector": {"matchLabels": {"c": "x y"}}}]}))]
    #[case::operator(json!({"nodeConfigs": [entry("a"), entry("b"), {"nodeSelector": {"matchExpressions": [{"key": "c", "operator": "in", "values": ["1"]}]}}]}))]
    #[case::text(json!("x"))]
    #[case::one_entry(json!({"nodeConfigs": [entry("a")]}))]
    fn a_key_that_cannot_be_read_or_cannot_conflict_is_left_out(#[case] document: Value) {
        assert!(read(names::COLOCATION_CONFIG, &document).is_empty());
    }

    #[test]
    fn the_text_is_koordinators_to_the_letter() {
        let conflict = Conflict {
            key: names::CPU_BURST_CONFIG,
            entries: vec![
                "<a>".to_owned(),
                "b&c".to_owned(),
                String::new(),
                "\"\n".to_owned(),
            ],
            places: vec![0, 1, 2, 3],
        };
        let expected = r#"___{"reason":"ExistNodeConfict","message":{"config":"cpu-burst-config","strategies":["\u003ca\u003e","b\u0026c","","\"\n"],"exampleNodes":["n1"]}}___"#;
        assert_eq!(conflict.koordinator_message("n1"), expected);
    }
}
