//! Tests of changed values and their nodes.

use std::time::{Duration, Instant};

use headroom_domain::selector::Labels;
use proptest::prelude::*;

use super::*;
use crate::slo::{
    Data,
    tests::{COLO, THR},
};

/// Nodes with names and labels.
#[derive(Debug)]
struct LabelledNodes(Vec<(String, Labels)>);

impl Nodes for LabelledNodes {
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels)) {
        for (name, labels) in &self.0 {
            visitor(name, labels);
        }
    }
}

fn documents(key: &str, text: &str) -> SloDocuments {
    SloDocuments::read(&Data::from([(key.to_owned(), text.to_owned())]))
}

/// Nodes n0, n1, ... with these values of label `pool`; no label for an empty value.
fn pools<'p>(pools: impl IntoIterator<Item = &'p str>) -> LabelledNodes {
    let nodes = pools.into_iter().enumerate().map(|(number, pool)| {
        let labels = (!pool.is_empty()).then(|| ("pool".to_owned(), pool.to_owned()));
        (format!("n{number}"), labels.into_iter().collect())
    });
    LabelledNodes(nodes.collect())
}

fn entry(pool: &str, members: &str) -> String {
    format!(r#"{{"name":"{pool}","nodeSelector":{{"matchLabels":{{"pool":"{pool}"}}}},{members}}}"#)
}

fn shown(differences: &[KeyDifference]) -> Vec<String> {
    let groups = differences.iter().flat_map(|difference| &difference.groups);
    let side = |value: &Option<EffectiveValue>| {
        value
            .as_ref()
            .map_or_else(|| "-".to_owned(), |value| format!("{value} ({})", value.origin))
    };
    let group = |group: &ChangeGroup| {
        let changes = group.changes.iter();
        let changes = changes.map(|change| {
            format!(
                "{} {} -> {}",
                change.path,
                side(&change.before),
                side(&change.after)
            )
        });
        let changes: Vec<String> = changes.collect();
        format!("{} {:?}: {}", group.count, group.nodes, changes.join("; "))
    };
    groups.map(group).collect()
}

#[test]
fn nodes_with_equal_changes_are_one_group() {
    let old = documents(COLO, "{}");
    let new = format!(
        r#"{{"degradeTimeMinutes":20,"nodeConfigs":[{},{}]}}"#,
        entry("a", r#""degradeTimeMinutes":15"#),
        entry("b", r#""degradeTimeMinutes":30"#)
    );
    let nodes = pools(["c", "b", "a", "", "c", "c", "b"]);
    let found = difference(&old, &documents(COLO, &new), &nodes);
    // Nodes of pool a keep their values, but with another origin.
    assert_eq!(
        shown(&found),
        [
            r#"4 {"n0", "n3", "n4"}: degradeTimeMinutes 15 minutes (default) -> 20 minutes (cluster)"#,
            r#"2 {"n1", "n6"}: degradeTimeMinutes 15 minutes (default) -> 30 minutes (entry "b")"#,
        ]
    );
}

#[test]
fn added_and_removed_values_have_one_side() {
    let old = documents(THR, r#"{"clusterStrategy":{"cpuEvictTimeWindowSeconds":5}}"#);
    let new = documents(THR, r#"{"clusterStrategy":{"cpuSuppressMinPercent":5}}"#);
    assert_eq!(
        shown(&difference(&old, &new, &pools([""]))),
        [
            r#"1 {"n0"}: cpuEvictTimeWindowSeconds 5 seconds (cluster) -> -; cpuSuppressMinPercent - -> 5 percent (cluster)"#
        ]
    );
}

#[test]
fn the_order_of_entries_counts() {
    let exists = r#"{"name":"any","nodeSelector":{"matchExpressions":[{"key":"pool","operator":"Exists"}]},"degradeTimeMinutes":1}"#;
    let a = entry("a", r#""degradeTimeMinutes":2"#);
    let text = |entries: [&str; 2]| format!(r#"{{"nodeConfigs":[{}]}}"#, entries.join(","));
    let old = documents(COLO, &text([exists, &a]));
    let new = documents(COLO, &text([&a, exists]));
    assert_eq!(
        shown(&difference(&old, &new, &pools(["a", "b"]))),
        [r#"1 {"n0"}: degradeTimeMinutes 1 minutes (entry "any") -> 2 minutes (entry "a")"#]
    );
}

#[test]
fn unreadable_versions_are_not_compared() {
    let (good, bad) = (
        documents(COLO, r#"{"degradeTimeMinutes":20}"#),
        documents(COLO, "{"),
    );
    for (old, new, is_new) in [(&good, &bad, true), (&bad, &good, false), (&bad, &bad, true)] {
        let found = difference(old, new, &pools(["a"]));
        assert_eq!(found.len(), 1);
        let unreadable = found[0].unreadable.as_ref().unwrap();
        assert_eq!(unreadable.is_new, is_new);
        assert!(found[0].groups.is_empty());
    }
}

#[test]
fn many_nodes_and_entries_are_compared_in_time() {
    let entries = |minutes: usize| {
        let entries: Vec<String> = (0..500)
            .map(|pool| entry(&format!("p{pool}"), &format!(r#""degradeTimeMinutes":{minutes}"#)))
            .collect();
        documents(COLO, &format!(r#"{{"nodeConfigs":[{}]}}"#, entries.join(",")))
    };
    let names: Vec<String> = (0..5000).map(|node| format!("p{}", node % 500)).collect();
    let nodes = pools(names.iter().map(String::as_str));
    let start = Instant::now();
    let found = difference(&entries(1), &entries(2), &nodes);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // Each entry is a distinct origin.
    assert_eq!(found[0].groups.len(), 500);
    assert!(
        found[0]
            .groups
            .iter()
            .all(|group| group.count == 10 && group.nodes.len() == 3)
    );
}

/// A document of `colocation-config` with entries for pools.
fn colocation() -> impl Strategy<Value = String> {
    let members = || {
        let minutes = prop::option::of(1..4_u32);
        let percent = prop::option::of(58..62_u32);
        let policy = prop::option::of("(usage|request|)");
        (minutes, percent, policy).prop_map(|(minutes, percent, policy)| {
            let members = [
                minutes.map(|minutes| format!(r#""degradeTimeMinutes":{minutes}"#)),
                percent.map(|percent| format!(r#""cpuReclaimThresholdPercent":{percent}"#)),
                policy.map(|policy| format!(r#""cpuCalculatePolicy":"{policy}""#)),
                Some(r#""enable":true"#.to_owned()),
            ];
            members.into_iter().flatten().collect::<Vec<_>>().join(",")
        })
    };
    let entry = ("[abc]", members()).prop_map(|(pool, members)| entry(&pool, &members));
    let entries = prop::collection::vec(entry, 0..4);
    (members(), entries)
        .prop_map(|(members, entries)| format!(r#"{{{members},"nodeConfigs":[{}]}}"#, entries.join(",")))
}

fn pool_nodes() -> impl Strategy<Value = LabelledNodes> {
    prop::collection::vec("[abcd]", 0..12).prop_map(|names| pools(names.iter().map(String::as_str)))
}

proptest! {
    #[test]
    fn nothing_changes_from_a_version_to_itself(text in colocation(), nodes in pool_nodes()) {
        let documents = documents(COLO, &text);
        prop_assert!(difference(&documents, &documents, &nodes).is_empty());
    }

    #[test]
    fn the_difference_is_what_explanations_differ_in(old in colocation(), new in colocation(), nodes in pool_nodes()) {
        let (old, new) = (documents(COLO, &old), documents(COLO, &new));
        let found = difference(&old, &new, &nodes);
        let groups = found.iter().flat_map(|difference| &difference.groups);
        let mut counted = 0;
        for group in groups {
            counted += group.count;
            prop_assert_eq!(group.nodes.len(), group.count.min(MOST_NAMES));
            for (_, labels) in nodes.0.iter().filter(|(name, _)| group.nodes.contains(name)) {
                let explain = |documents: &SloDocuments| documents.iter().next().unwrap().effective(labels).values;
                let (mut before, after) = (explain(&old), explain(&new));
                for change in &group.changes {
                    prop_assert_eq!(origin(change.before.as_ref()), origin(before.get(&change.path)));
                    prop_assert_eq!(origin(change.after.as_ref()), origin(after.get(&change.path)));
                    match &change.after {
                        Some(value) => before.insert(change.path.clone(), value.clone()),
                        None => before.remove(&change.path),
                    };
                }
                // Applying the changes to the old values gives the new values.
                prop_assert!(before.keys().eq(after.keys()));
                prop_assert!(before.values().zip(after.values()).all(|(one, other)| one.is_same(other)));
            }
        }
        let differing = nodes.0.iter().filter(|(_, labels)| {
            let explain = |documents: &SloDocuments| documents.iter().next().unwrap().effective(labels).values;
            let (before, after) = (explain(&old), explain(&new));
            !before.keys().eq(after.keys()) || before.values().zip(after.values()).any(|(one, other)| !one.is_same(other))
        });
        prop_assert_eq!(counted, differing.count());
    }
}

fn origin(value: Option<&EffectiveValue>) -> Option<String> {
    let value = value?;
    Some(format!("{value} {}", value.origin))
}
