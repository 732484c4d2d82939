//! Tests of completed device resources, by the numbers of the cases of pods.

use proptest::{collection::vec, option, prelude::*, sample::select};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{SWITCHES, switch::Compat};

/// Returns the `spec` after the changes. A second run must change nothing.
fn completed(mut spec: Value, compat: Compat) -> Value {
    let switches = Switches::parse(SWITCHES, compat, "").unwrap();
    let changes_of = |spec: &Value| {
        let containers: Containers = serde_json::from_value(spec.clone()).unwrap();
        changes(&containers, &switches)
    };
    let first = changes_of(&spec);
    for list in first.lists() {
        first.apply(list, &mut spec[list.name()]).unwrap();
    }
    let second = changes_of(&spec);
    assert!(second.is_empty(), "{second:?}");
    spec
}

/// A Pod with one container `c`; the names of devices are short.
fn one(requests: &Value, limits: &Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": long(requests), "limits": long(limits)}}]})
}

/// Expands short names: `core` means `koordinator.sh/gpu-core`, and so on. A 0 in JSON stays a number.
fn long(amounts: &Value) -> Value {
    let Some(amounts) = amounts.as_object() else {
        return amounts.clone();
    };
    let name = |short: &str| match short {
        "gpu" => names::GPU.to_owned(),
        "core" => names::GPU_CORE.to_owned(),
        "memory" => names::GPU_MEMORY.to_owned(),
        "ratio" => names::GPU_MEMORY_RATIO.to_owned(),
        "shared" => names::GPU_SHARED.to_owned(),
        other => other.to_owned(),
    };
    amounts
        .iter()
        .map(|(short, amount)| (name(short), amount.clone()))
        .collect()
}

fn both(amounts: &Value) -> Value {
    one(amounts, amounts)
}

#[rstest]
#[case::case_76_a_whole_card(json!({"gpu": "100"}), json!({"core": "100", "ratio": "100", "shared": "1"}))]
#[case::case_77_two_cards(json!({"gpu": "200"}), json!({"core": "200", "ratio": "200", "shared": "2"}))]
#[case::case_77_a_card_and_a_half(json!({"gpu": "150"}), json!({"core": "150", "ratio": "150", "shared": "1"}))]
#[case::case_77_half_a_card(json!({"gpu": "50"}), json!({"core": "50", "ratio": "50", "shared": "1"}))]
#[case::case_78_memory_decides(
    json!({"core": "100", "ratio": "200"}),
    json!({"core": "100", "ratio": "200", "shared": "2"})
)]
#[case::case_79_cores_alone(json!({"core": "300"}), json!({"core": "300", "shared": "3"}))]
#[case::case_79_memory_alone(json!({"memory": "8Gi"}), json!({"memory": "8Gi", "shared": "1"}))]
#[case::case_80_memory_decides_though_it_is_less(
    json!({"ratio": "50", "core": "200"}),
    json!({"ratio": "50", "core": "200", "shared": "1"})
)]
#[case::case_81_a_share_is_complete(
    json!({"shared": "2", "memory": "16Gi"}),
    json!({"shared": "2", "memory": "16Gi"})
)]
#[case::case_83_another_vendor(json!({"nvidia.com/gpu": "1"}), json!({"nvidia.com/gpu": "1"}))]
#[case::case_154_percent_overwrite_cores(
    json!({"gpu": "100", "core": "30"}),
    json!({"core": "100", "ratio": "100", "shared": "1"})
)]
#[case::zero_counts(json!({"gpu": "0"}), json!({"core": "0", "ratio": "0", "shared": "1"}))]
#[case::percent_and_cards(
    json!({"gpu": "100", "shared": "2"}),
    json!({"core": "100", "ratio": "100", "shared": "2"})
)]
#[case::a_fraction_is_rounded_up(
    json!({"gpu": "199500m"}),
    json!({"core": "200", "ratio": "200", "shared": "2"})
)]
#[case::a_thousand_is_canonical(
    json!({"gpu": "1000"}),
    json!({"core": "1k", "ratio": "1k", "shared": "10"})
)]
#[case::less_than_nothing(json!({"gpu": "-200"}), json!({"core": "-200", "ratio": "-200", "shared": "1"}))]
#[case::a_spelling_stays(json!({"core": "0.1k"}), json!({"core": "0.1k", "shared": "1"}))]
#[case::other_resources_stay(json!({"cpu": "1.0", "core": "1"}), json!({"cpu": "1.0", "core": "1", "shared": "1"}))]
#[case::the_largest_amount_does_not_overflow(
    json!({"gpu": "1e29"}),
    json!({"core": "100000000000E", "ratio": "100000000000E", "shared": "1000000000E"})
)]
fn equal_requests_and_limits_are_completed_with_and_without_the_switches(
    #[case] before: Value,
    #[case] after: Value,
) {
    for compat in [Compat::Upstream, Compat::Headroom] {
        assert_eq!(completed(both(&before), compat), both(&after), "{compat:?}");
    }
}

#[rstest]
fn case_82_limits_that_are_missing_are_created(#[values(json!(null), json!({}))] limits: Value) {
    let after = json!({"core": "100", "ratio": "100", "shared": "1"});
    for compat in [Compat::Upstream, Compat::Headroom] {
        let before = one(&json!({"gpu": "100"}), &limits);
        assert_eq!(completed(before, compat), both(&after));
        let absent = json!({"containers": [{"name": "c", "resources": {"requests": {names::GPU: "100"}}}]});
        assert_eq!(completed(absent, compat), both(&after));
    }
}

#[test]
fn case_83_an_init_container_is_completed_except_in_koordinator() {
    let resources = |amounts: &Value| both(amounts)["containers"][0]["resources"].clone();
    let spec = |amounts: &Value| json!({"initContainers": [{"name": "i"}, {"name": "side", "restartPolicy": "Always", "resources": resources(amounts)}]});
    let before = spec(&json!({"gpu": "100"}));
    assert_eq!(completed(before.clone(), Compat::Upstream), before);
    let after = spec(&json!({"core": "100", "ratio": "100", "shared": "1"}));
    assert_eq!(completed(before, Compat::Headroom), after);
}

#[test]
fn case_153_cards_only_in_limits_count_except_in_koordinator() {
    let before = one(&json!({"core": "50"}), &json!({"core": "50", "shared": "4"}));
    assert_eq!(
        completed(before.clone(), Compat::Upstream),
        both(&json!({"core": "50", "shared": "1"}))
    );
    assert_eq!(
        completed(before, Compat::Headroom),
        both(&json!({"core": "50", "shared": "4"}))
    );
}

#[rstest]
fn percent_only_in_limits_is_converted_except_in_koordinator(
    #[values(json!(null), json!({}))] requests: Value,
) {
    let before = one(&requests, &json!({"gpu": "200"}));
    assert_eq!(
        completed(before.clone(), Compat::Upstream),
        one(&json!({"shared": "1"}), &json!({"gpu": "200", "shared": "1"}))
    );
    assert_eq!(
        completed(before, Compat::Headroom),
        both(&json!({"core": "200", "ratio": "200", "shared": "2"}))
    );
}

#[test]
fn only_containers_with_devices_change() {
    let spec = json!({"containers": [
        {"name": "a", "resources": {"requests": {"cpu": "1"}}},
        {"name": "b", "resources": {"requests": {names::GPU_CORE: "50"}, "limits": {names::GPU_CORE: "50"}}},
        {"name": "c"},
    ]});
    let containers: Containers = serde_json::from_value(spec).unwrap();
    let changes = changes(&containers, &Switches::default());
    let changed: Vec<_> = changes.iter().map(|change| (change.list, change.index)).collect();
    assert_eq!(changed, [(ContainerList::Main, 1)]);
}

/// Amounts of some devices and of others, or no map at all.
fn amounts() -> impl Strategy<Value = Value> {
    let names = DEVICES
        .into_iter()
        .chain(["cpu", "nvidia.com/gpu"])
        .collect::<Vec<_>>();
    let amount = select(vec![
        "0", "1", "50", "99500m", "100", "150", "0.2k", "300", "-100", "8Gi",
    ]);
    option::of(vec((select(names), amount), 0..5)).prop_map(|entries| match entries {
        Some(entries) => entries
            .into_iter()
            .map(|(name, amount)| (name.to_owned(), json!(amount)))
            .collect(),
        None => Value::Null,
    })
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let container = (amounts(), amounts()).prop_map(
        |(requests, limits)| json!({"newer": 1, "resources": {"requests": requests, "limits": limits}}),
    );
    vec(container, 0..3)
}

fn specs() -> impl Strategy<Value = Value> {
    (containers(), containers())
        .prop_map(|(main, init)| json!({"containers": main, "initContainers": init, "newer": {"a": [null]}}))
}

/// The object without anything that a device rule may change.
fn without_devices(mut spec: Value) -> Value {
    for list in ContainerList::ALL {
        for container in spec[list.name()].as_array_mut().unwrap() {
            for amounts in ["requests", "limits"] {
                let amounts = &mut container["resources"][amounts];
                match amounts.as_object_mut() {
                    Some(members) => members.retain(|name, _| !DEVICES.contains(&name.as_str())),
                    None => *amounts = json!({}),
                }
            }
        }
    }
    spec
}

proptest! {
    #[test]
    fn completed_devices_request_cards_and_leave_the_rest_unchanged(spec in specs()) {
        for compat in [Compat::Upstream, Compat::Headroom] {
            let after = completed(spec.clone(), compat);
            prop_assert_eq!(without_devices(after.clone()), without_devices(spec.clone()));
            for container in after["containers"].as_array().unwrap() {
                let [requests, limits] = ["requests", "limits"].map(|name| &container["resources"][name]);
                prop_assert!(requests.get(names::GPU).is_none());
                let has_device = |amounts: &Value| DEVICES.iter().any(|device| amounts.get(device).is_some());
                if has_device(requests) || has_device(limits) {
                    prop_assert!(requests.get(names::GPU_SHARED).is_some());
                }
            }
        }
    }
}
