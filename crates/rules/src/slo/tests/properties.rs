//! Property tests of the check for arbitrary texts.

use std::time::{Duration, Instant};

use headroom_domain::selector::{LabelSelector, LabelSelectorRequirement};
use proptest::prelude::*;

use super::*;
use crate::slo::table::KEYS;

/// Enough for a debug build on a busy machine; an unbounded check would take hours.
const LONG: Duration = Duration::from_secs(60);

/// JSON with known names and values of all types.
fn json() -> impl Strategy<Value = String> {
    let names = KEYS
        .into_iter()
        .flat_map(table::Key::rows)
        .flat_map(|(_, field)| field.member.split(['.', '[', ']', '{', '}']));
    let names: Vec<&str> = names
        .filter(|name| !name.is_empty())
        .chain([
            "clusterStrategy",
            "nodeStrategies",
            "nodeConfigs",
            "nodeSelector",
            "matchLabels",
            "matchExpressions",
            "beClass",
            "lsClass",
            "name",
            "key",
            "operator",
            "values",
        ])
        .collect();
    let leaf = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        (-1_i64..200).prop_map(|number| number.to_string()),
        "\"(50M|In|a|5m|)\"",
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| number.to_string()),
    ];
    leaf.prop_recursive(5, 64, 5, move |inner| {
        let member = (prop::sample::select(names.clone()), inner.clone());
        let members = prop::collection::vec(member, 0..5);
        prop_oneof![
            3 => members.prop_map(|members| {
                let members: Vec<String> =
                    members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
            1 => prop::collection::vec(inner, 0..4).prop_map(|elements| format!("[{}]", elements.join(","))),
        ]
    })
}

fn all_keys(text: &str) -> Case {
    let data = KEYS.map(|key| (key.name, text));
    Case::new(data).with_node("n1", &[("a", "a")])
}

/// Requirements with coprime numbers of values: the samples include all combinations.
fn sampled_selector() -> impl Strategy<Value = LabelSelector> {
    let values = |count: usize| {
        let labels = ["1", "2", "3", "4", "5"].map(str::to_owned).to_vec();
        prop::sample::subsequence(labels, count)
    };
    let requirement = |key: &'static str, count| {
        values(count).prop_map(move |values| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values,
        })
    };
    let all = (requirement("x", 2), requirement("y", 3), requirement("z", 1));
    (all, prop::sample::subsequence(vec![0, 1, 2], 1..=3)).prop_map(|((x, y, z), places)| {
        let all = [x, y, z];
        LabelSelector {
            match_expressions: places
                .into_iter()
                .map(|place: usize| all[place].clone())
                .collect(),
            ..LabelSelector::default()
        }
    })
}

/// Valid selectors with few keys and values.
fn selector() -> impl Strategy<Value = LabelSelector> {
    let requirement = ("[xyz]", 0..4_usize, prop::collection::vec("[123]", 1..3));
    let requirement = requirement.prop_map(|(key, operator, values)| LabelSelectorRequirement {
        key,
        operator: ["In", "NotIn", "Exists", "DoesNotExist"][operator].to_owned(),
        values: if operator < 2 { values } else { Vec::new() },
    });
    prop::collection::vec(requirement, 1..4).prop_map(|match_expressions| LabelSelector {
        match_expressions,
        ..LabelSelector::default()
    })
}

fn entry_text(selector: &LabelSelector) -> String {
    let requirements = selector.match_expressions.iter().map(|requirement| {
        let LabelSelectorRequirement {
            key,
            operator,
            values,
        } = requirement;
        serde_json::json!({"key": key, "operator": operator, "values": values})
    });
    let requirements: Vec<serde_json::Value> = requirements.collect();
    serde_json::json!({"nodeSelector": {"matchExpressions": requirements}}).to_string()
}

proptest! {
    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        all_keys(&text).report(Compat::Headroom);
        all_keys(&text).report(Compat::Upstream);
    }

    #[test]
    fn any_document_is_answered_the_same_twice(text in json()) {
        for compat in [Compat::Headroom, Compat::Upstream] {
            prop_assert_eq!(all_keys(&text).report(compat), all_keys(&text).report(compat));
        }
    }

    #[test]
    fn names_in_any_case_give_the_same_result(text in json()) {
        let read = |text: &str| decode::read(&table::COLOCATION, text).unwrap();
        let (one, other) = (read(&text), read(&text.to_uppercase().replace("NULL", "null").replace("TRUE", "true")));
        prop_assert_eq!(one.document.entries.len(), other.document.entries.len());
    }

    #[test]
    fn samples_and_selectors_agree_where_all_combinations_are_samples(
        selectors in prop::collection::vec(sampled_selector(), 2..4),
    ) {
        let entries: Vec<String> = selectors.iter().map(entry_text).collect();
        let text = format!(r#"{{"nodeConfigs":[{}]}}"#, entries.join(","));
        let case = Case::new([(COLO, &text)]);
        prop_assert_eq!(case.report(Compat::Headroom).refusal, case.report(Compat::Upstream).refusal);
    }

    #[test]
    fn overlaps_found_by_samples_are_found_by_selectors(selectors in prop::collection::vec(selector(), 2..5)) {
        let entries: Vec<String> = selectors.iter().map(entry_text).collect();
        let text = format!(r#"{{"nodeConfigs":[{}]}}"#, entries.join(","));
        let case = Case::new([(COLO, &text)]);
        let (upstream, ours) = (case.report(Compat::Upstream), case.report(Compat::Headroom));
        if upstream.refusal.is_some() {
            // Koordinator's message comes first, and the entries in it are among the listed ones.
            prop_assert_eq!(upstream.refusal, ours.refusal);
            prop_assert!(ours.errors.to_string().contains("also selected by"));
        }
    }
}

#[test]
fn large_documents_are_answered_in_time() {
    let list = |entry: &dyn Fn(usize) -> String, count| {
        let entries: Vec<String> = (0..count).map(entry).collect();
        format!(r#"{{"nodeConfigs":[{}]}}"#, entries.join(","))
    };
    let labels = |labels: &str| format!(r#"{{"nodeSelector":{{"matchLabels":{{{labels}}}}}}}"#);
    let many: Vec<String> = (0..101).map(|value| format!("\"{value}\"")).collect();
    let expressions: Vec<String> = [97, 89, 83, 79, 73, 71, 67, 61]
        .into_iter()
        .enumerate()
        .map(|(key, count)| {
            format!(
                r#"{{"key":"k{key}","operator":"In","values":[{}]}}"#,
                many[..count].join(",")
            )
        })
        .collect();
    let product = format!(
        r#"{{"nodeSelector":{{"matchExpressions":[{}]}}}}"#,
        expressions.join(",")
    );
    let documents = [
        list(&|_| labels(r#""a":"1""#), 20_000),
        list(&|index| labels(&format!(r#""a":"{index}""#)), 20_000),
        list(&|index| labels(&format!(r#""k{index}":"1""#)), 20_000),
        list(
            &|index| labels(&format!(r#""a":"{}","b":"{}""#, index / 140, index % 140)),
            19_600,
        ),
        list(&|_| product.clone(), 200),
        "[".repeat(1 << 20),
        format!("{{{}}}", vec![r#""x":1"#; 100_000].join(",")),
        format!(r#"{{"a":{}"#, "9".repeat(1 << 20)),
    ];
    for text in documents {
        for compat in [Compat::Headroom, Compat::Upstream] {
            let start = Instant::now();
            Case::new([(COLO, &text)]).report(compat);
            assert!(start.elapsed() < LONG, "{}: {:?}", &text[..60], start.elapsed());
        }
    }
}
