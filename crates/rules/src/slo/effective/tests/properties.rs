//! Property tests: for any document, a node gets the entry's strategy over that of all nodes, over defaults.

use proptest::prelude::*;

use super::*;
use crate::slo::{
    decode,
    table::{BURST, COLOCATION, Key, NORMALIZATION, THRESHOLD, ValueKind},
};

/// Keys that are merged member by member.
static MERGED: [&Key; 4] = [&COLOCATION, &THRESHOLD, &BURST, &NORMALIZATION];

/// Members of one key with values of their kinds, as JSON without braces.
fn members(key: &'static Key) -> impl Strategy<Value = String> {
    // One member per object: a second one would be another object with the same name.
    let rows: Vec<_> = key
        .fields
        .iter()
        .filter(|row| !row.member.contains('.'))
        .collect();
    let value = (any::<bool>(), 0..5_i64, prop::option::weighted(0.9, 0..3_usize));
    let row = prop::sample::select(rows);
    prop::collection::btree_map(row.prop_map(|row| row.member), value, 0..6).prop_map(move |chosen| {
        let written = chosen.into_iter().map(|(member, (on, number, word))| {
            let kind = key.fields.iter().find(|row| row.member == member).unwrap().kind;
            let text = match (kind, word) {
                (_, None) => "null".to_owned(),
                (ValueKind::Bool, _) => on.to_string(),
                (ValueKind::Text | ValueKind::Duration, Some(word)) => {
                    format!("{:?}", ["", "usage", "none"][word])
                }
                (ValueKind::Object | ValueKind::Any, _) => format!(r#"{{"a{number}":{number}}}"#),
                _ => number.to_string(),
            };
            format!("\"{member}\":{text}")
        });
        written.collect::<Vec<_>>().join(",")
    })
}

/// A key with a document that has one entry for the node.
fn document() -> impl Strategy<Value = (&'static Key, String)> {
    prop::sample::select(MERGED.to_vec()).prop_flat_map(|key| {
        let parts = (members(key), members(key), any::<bool>());
        parts.prop_map(move |(cluster, own, is_selected)| {
            let value = if is_selected { "1" } else { "2" };
            let own = entry(&own).replace(r#""x":"1""#, &format!(r#""x":"{value}""#));
            let cluster = match (key.cluster, cluster.as_str()) {
                (Some(name), _) => format!(r#""{name}":{{{cluster}}},"#),
                (None, "") => String::new(),
                (None, _) => format!("{cluster},"),
            };
            (key, format!(r#"{{{cluster}"{}":[{own}]}}"#, key.entries))
        })
    })
}

proptest! {
    #[test]
    fn a_node_gets_the_entry_over_all_nodes_over_defaults((key, text) in document()) {
        let found = effective(key.name, &text, &[]);
        prop_assert_eq!(&found.unreadable, &None, "{}", text);
        let document = decode::read(key, &text).unwrap().document;
        let own = document.entries[0].strategy.clone();
        let cluster = document.cluster.clone().unwrap_or_default();
        let is_selected = !found.selected_by.is_empty();
        let given = |strategy: &crate::slo::document::Strategy, path: &str| {
            let content = strategy.get(path).cloned();
            content.filter(|content| !matches!(content, Content::Text(text) if text.is_empty()))
        };
        for (path, value) in &found.values {
            let by_entry = given(&own, path).filter(|_| is_selected);
            let by_cluster = given(&cluster, path);
            let (origin, content) = match (by_entry, by_cluster) {
                // Objects have the members of both.
                (Some(Content::Json(_)), Some(_)) => (Origin::Entry("\"a\"".to_owned()), None),
                (Some(content), _) => (Origin::Entry("\"a\"".to_owned()), Some(content)),
                (None, Some(content)) => (Origin::Cluster, Some(content)),
                (None, None) => (Origin::Default, None),
            };
            prop_assert_eq!(&value.origin, &origin, "{} of {}", path, text);
            if let Some(content) = content {
                prop_assert_eq!(&value.content, &content, "{} of {}", path, text);
            }
        }
        // No given value is lost.
        for strategy in [Some(&own).filter(|_| is_selected), Some(&cluster)].into_iter().flatten() {
            for (path, _) in strategy.iter().filter(|(path, _)| given(strategy, path).is_some()) {
                prop_assert!(found.values.contains_key(path), "{} of {}", path, text);
            }
        }
    }
}
