//! Finds the entries of Koordinator's other ConfigMap keys that select a node. If two entries of one key select it,
//! only their order decides, and Koordinator refuses to let that happen.
//!
//! Only the needed members are read, with Koordinator's own leniency: names of members in any case, unknown ones passed
//! over. A key that cannot be read is left out alone, as if it were absent.

use std::collections::BTreeMap;

use headroom_domain::{
    names,
    selector::{LabelSelector, LabelSelectorRequirement, NodeSelector},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::store::node::Labels;

/// The member that holds the entries of most keys.
const ENTRIES: &str = "nodeStrategies";
/// The keys in the order in which conflicts are reported, and the member that holds the entries of each.
const KEYS: [(&str, &str); 5] = [
    (names::COLOCATION_CONFIG, "nodeConfigs"),
    (names::RESOURCE_THRESHOLD_CONFIG, ENTRIES),
    (names::RESOURCE_QOS_CONFIG, ENTRIES),
    (names::SYSTEM_CONFIG, ENTRIES),
    (names::CPU_BURST_CONFIG, ENTRIES),
];

/// The entries of those keys that can select a node twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strategies(Vec<Strategy>);

/// A key that more than one entry of selects the same node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The key in the ConfigMap.
    pub key: &'static str,
    /// The names of the entries, in their order; empty for those without.
    pub entries: Vec<String>,
    /// Their places among all entries of the key.
    places: Vec<usize>,
}

/// The entries of one key, two at least.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Strategy {
    key: &'static str,
    entries: Vec<StrategyEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StrategyEntry {
    name: String,
    selector: NodeSelector,
}

/// An entry as written: its types are right, its selector need not be.
struct WrittenEntry {
    name: String,
    selector: Option<LabelSelector>,
}

/// A key does not hold what it should.
#[derive(Debug, Clone, Copy)]
struct Unreadable;

impl Strategies {
    /// The keys under which this can be configured, in the order in which conflicts are reported.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        KEYS.into_iter().map(|(key, _)| key)
    }

    /// Reads the content of the ConfigMap.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let parsed = |key: &str, member| parse(data.get(key).ok_or(Unreadable)?, member);
        // To Koordinator, what a class of service gets says nothing without the settings of the kernel.
        let has_system = parsed(names::SYSTEM_CONFIG, ENTRIES).is_ok();
        let keys = KEYS
            .into_iter()
            .filter(|(key, _)| *key != names::RESOURCE_QOS_CONFIG || has_system);
        let strategies = keys.filter_map(|(key, member)| {
            let written = parsed(key, member).ok()?.into_iter();
            let entries: Vec<StrategyEntry> =
                written.map(WrittenEntry::entry).collect::<Result<_, _>>().ok()?;
            (entries.len() > 1).then_some(Strategy { key, entries })
        });
        Self(strategies.collect())
    }

    /// True if no node can be in conflict, whatever its labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The conflicts of a node with these labels.
    pub fn conflicts(&self, labels: &Labels) -> impl Iterator<Item = Conflict> {
        self.0.iter().filter_map(|strategy| strategy.conflict(labels))
    }

    /// The first conflict that a change of labels brings about or widens. One that was there before and has no more
    /// entries now is not the fault of whoever changes another label.
    pub fn grown(&self, before: &Labels, now: &Labels) -> Option<Conflict> {
        self.0.iter().find_map(|strategy| {
            let conflict = strategy.conflict(now)?;
            let before = strategy.conflict(before);
            let before = before.map(|conflict| conflict.places).unwrap_or_default();
            let has_grown = conflict.places.iter().any(|place| !before.contains(place));
            has_grown.then_some(conflict)
        })
    }
}

impl Strategy {
    fn conflict(&self, labels: &Labels) -> Option<Conflict> {
        let Self { key, entries } = self;
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
    /// The text by which Koordinator's clients know such a denial, misspelt as it is.
    pub fn in_koordinators_words(&self, node: &str) -> String {
        let entries: Vec<String> = self.entries.iter().map(|entry| quoted(entry)).collect();
        format!(
            r#"___{{"reason":"ExistNodeConfict","message":{{"config":{},"strategies":[{}],"exampleNodes":[{}]}}}}___"#,
            quoted(self.key),
            entries.join(","),
            quoted(node)
        )
    }
}

/// JSON for a text as Go prints it, safe to stand in HTML.
fn quoted(text: &str) -> String {
    let escaped = Value::from(text).to_string();
    let special = [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ];
    special.into_iter().fold(escaped, |text, (character, escape)| {
        text.replace(character, escape)
    })
}

impl WrittenEntry {
    /// An error without a selector, or with one that Kubernetes would not take.
    fn entry(self) -> Result<StrategyEntry, Unreadable> {
        let Self { name, selector } = self;
        let selector = selector.ok_or(Unreadable)?;
        let selector = NodeSelector::try_from(&selector).map_err(|_reason| Unreadable)?;
        Ok(StrategyEntry { name, selector })
    }
}

/// The entries of a key, if its text is JSON of the right types.
fn parse(text: &str, member: &str) -> Result<Vec<WrittenEntry>, Unreadable> {
    let document = serde_json::from_str(text).map_err(|_reason| Unreadable)?;
    let entries: Option<Vec<Value>> = remove(&mut members(document)?, member)?;
    entries.unwrap_or_default().into_iter().map(written).collect()
}

fn written(entry: Value) -> Result<WrittenEntry, Unreadable> {
    let mut entry = members(entry)?;
    let selector: Option<Value> = remove(&mut entry, "nodeSelector")?;
    Ok(WrittenEntry {
        name: remove(&mut entry, "name")?.unwrap_or_default(),
        selector: selector.map(label_selector).transpose()?,
    })
}

fn label_selector(selector: Value) -> Result<LabelSelector, Unreadable> {
    let mut selector = members(selector)?;
    let match_labels: Option<Labels> = remove(&mut selector, "matchLabels")?;
    let expressions: Option<Vec<Value>> = remove(&mut selector, "matchExpressions")?;
    let expressions = expressions.unwrap_or_default().into_iter().map(|expression| {
        let mut expression = members(expression)?;
        Ok(LabelSelectorRequirement {
            key: remove(&mut expression, "key")?.unwrap_or_default(),
            operator: remove(&mut expression, "operator")?.unwrap_or_default(),
            values: remove(&mut expression, "values")?.unwrap_or_default(),
        })
    });
    Ok(LabelSelector {
        match_labels: match_labels.unwrap_or_default(),
        match_expressions: expressions.collect::<Result<_, _>>()?,
    })
}

/// The members of an object; `null` has none.
fn members(value: Value) -> Result<Map<String, Value>, Unreadable> {
    match value {
        Value::Object(members) => Ok(members),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Err(Unreadable),
    }
}

/// Takes a member out, in whatever case its name is written; `None` if it is absent or `null`.
fn remove<T: DeserializeOwned>(
    members: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, Unreadable> {
    let in_any_case = || members.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned();
    let key = if members.contains_key(name) {
        Some(name.to_owned())
    } else {
        in_any_case()
    };
    let value = key.and_then(|key| members.remove(&key));
    value.map_or(Ok(None), |value| {
        serde_json::from_value(value).map_err(|_reason| Unreadable)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

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
        let conflict = colocation(&["a", "b", "c"]).grown(&labels(before), &labels(now))?;
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
    fn a_conflict_grows_when_it_has_an_entry_that_it_had_not(
        #[case] before: &str,
        #[case] now: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(grown(before, now).as_deref(), expected);
    }

    #[test]
    fn names_of_members_are_read_in_any_case_and_unknown_ones_passed_over() {
        let document = json!({"NODECONFIGS": [
            {"Name": "a", "nodeselector": {"MatchLabels": {"a": "1"}, "other": 1}, "enable": true},
            {"name": null, "nodeSelector": {"matchexpressions": [{"Key": "b", "Operator": "Exists"}]}},
        ], "later": []});
        let strategies = read(names::COLOCATION_CONFIG, &document);
        let conflicts: Vec<Conflict> = strategies.conflicts(&labels("ab")).collect();
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
        assert_eq!(conflict.in_koordinators_words("n1"), expected);
    }
}
