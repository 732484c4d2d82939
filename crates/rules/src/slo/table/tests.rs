//! Consistency tests of the rows.

use std::collections::BTreeSet;

use super::*;
use crate::slo::{
    amplification as amplification_reader,
    expected::{hundredths, is_in_range},
};

#[test]
fn each_member_is_declared_once_and_described() {
    for key in KEYS {
        let mut paths = BTreeSet::new();
        for (class, field) in key.rows() {
            let path = (class.map(|class| class.member), field.member);
            assert!(paths.insert(path), "{}: {path:?}", key.name);
            assert!(!field.about.is_empty() && !field.go.is_empty(), "{path:?}");
            assert!(
                !field.about.contains(['|', '\n']),
                "it is a row of a table: {path:?}"
            );
        }
    }
    assert_eq!(
        KEYS.map(|key| key.name)
            .into_iter()
            .collect::<BTreeSet<_>>()
            .len(),
        KEYS.len()
    );
}

#[test]
fn pairs_name_each_other() {
    let mut pairs = 0;
    for (_, field) in KEYS.into_iter().flat_map(Key::rows) {
        for rule in field.rules {
            let (name, is_above) = match rule {
                Rule::AboveMember(name) => (name, true),
                Rule::BelowMember(name) => (name, false),
                Rule::Min(_) | Rule::Max(_) | Rule::Above(_) | Rule::Hundredths(..) | Rule::NotEmpty => {
                    continue;
                }
            };
            let mut rows = KEYS.into_iter().flat_map(Key::rows);
            let sibling = field.sibling(name);
            let (_, other) = rows.find(|(_, other)| other.member == sibling).expect(&sibling);
            let own = field.member.rsplit('.').next().unwrap();
            let back = if is_above {
                Rule::BelowMember(own)
            } else {
                Rule::AboveMember(own)
            };
            assert!(other.rules.contains(&back), "{sibling}");
            pairs += 1;
        }
    }
    // Five pairs of thresholds, and one pair per class.
    assert_eq!(pairs, 2 * (5 + 5));
}

#[test]
fn a_default_keeps_its_own_rules_and_is_one_of_the_words() {
    for (class, field) in KEYS.into_iter().flat_map(Key::rows) {
        let Some(default) = field.default_in(class) else {
            continue;
        };
        assert!(
            field.words.is_empty() || field.words.contains(&default),
            "{}",
            field.member
        );
        let Ok(number) = default.parse::<f64>() else {
            continue;
        };
        assert!(is_in_range(field.rules, number), "{}: {default}", field.member);
    }
}

#[test]
fn a_class_has_the_value_that_is_recommended_for_it() {
    let (class, field) = QOS
        .rows()
        .find(|(class, field)| {
            class.is_some_and(|class| class.member == "beClass") && field.member == "cpuQOS.groupIdentity"
        })
        .unwrap();
    assert_eq!(field.default_in(class), Some("-1"));
    assert_eq!(field.default_in(QOS.classes.last()), None);
    assert_eq!(
        (field.go_name(), field.sibling("x")),
        ("GroupIdentity", "cpuQOS.x".to_owned())
    );
}

/// The parser of the key must use the same ranges as its rows.
#[test]
fn headroom_ratios_are_accepted_only_within_the_range_of_their_row() {
    let mut ranges = 0;
    for field in AMPLIFICATION.fields {
        for rule in field.rules {
            let &Rule::Hundredths(min, max) = rule else {
                continue;
            };
            let is_read = |number: i64| {
                let nested = field.member.rsplit('.').fold(hundredths(number), |inner, name| {
                    format!(r#"{{"{name}":{inner}}}"#)
                });
                amplification_reader::read(&nested).is_ok()
            };
            let read = [min - 1, min, max, max + 1].map(is_read);
            assert_eq!(read, [false, true, true, false], "{}", field.member);
            ranges += 1;
        }
    }
    assert_eq!(ranges, 8);
}
