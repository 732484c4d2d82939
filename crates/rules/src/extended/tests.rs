//! Tests of the annotation, by the numbers of the cases of pods.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{SWITCHES, switch::Compat};

const ONE_THOUSAND: &str = r#"{"containers":{"c":{"limits":{"kubernetes.io/batch-cpu":"1k","kubernetes.io/batch-memory":"4Gi"},"requests":{"kubernetes.io/batch-cpu":"1k","kubernetes.io/batch-memory":"4Gi"}}}}"#;

fn keep() -> AnnotationChange {
    AnnotationChange::Keep
}

fn set(text: &str) -> AnnotationChange {
    AnnotationChange::Set(text.to_owned())
}

/// Computes the change twice, the second time on the result of the first: that must keep it.
fn decide(spec: &Value, current: Option<&str>, compat: Compat) -> AnnotationChange {
    let containers: Containers = serde_json::from_value(spec.clone()).unwrap();
    let switches = Switches::parse(SWITCHES, compat, "").unwrap();
    let change = annotation(&containers, current, &switches);
    let left = match &change {
        AnnotationChange::Keep => current,
        AnnotationChange::Set(text) => Some(text.as_str()),
        AnnotationChange::Remove => None,
    };
    assert_eq!(annotation(&containers, left, &switches), keep(), "{spec}");
    change
}

/// A Pod with one container `c`.
fn one(requests: &Value, limits: &Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": requests, "limits": limits}}]})
}

fn batch(cpu: &str, memory: &str) -> Value {
    json!({"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": memory})
}

#[rstest]
#[case::case_40_translated_resources(
    one(&batch("500", "1Gi"), &batch("500", "1Gi")),
    None,
    set(r#"{"containers":{"c":{"limits":{"kubernetes.io/batch-cpu":"500","kubernetes.io/batch-memory":"1Gi"},"requests":{"kubernetes.io/batch-cpu":"500","kubernetes.io/batch-memory":"1Gi"}}}}"#)
)]
#[case::case_44_mid_resources(
    one(
        &json!({"kubernetes.io/mid-cpu": "1k", "kubernetes.io/mid-memory": "1Gi"}),
        &json!({"kubernetes.io/mid-cpu": "1k", "kubernetes.io/mid-memory": "1Gi"})
    ),
    None,
    keep()
)]
#[case::case_60_other_resources_are_left_out(
    one(
        &json!({"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "4Gi", "foo/bar": "1", "cpu": "1"}),
        &json!({"kubernetes.io/batch-cpu": 1000, "kubernetes.io/batch-memory": "4096Mi", "foo/bar": "1"})
    ),
    None,
    set(ONE_THOUSAND)
)]
#[case::case_61_limits_alone(
    one(&json!(null), &json!({"kubernetes.io/batch-memory": "1Gi"})),
    None,
    set(r#"{"containers":{"c":{"limits":{"kubernetes.io/batch-memory":"1Gi"}}}}"#)
)]
#[case::case_64_an_empty_annotation_says_nothing(one(&json!({}), &json!({})), Some("{}"), keep())]
#[case::null_says_nothing(one(&json!({}), &json!({})), Some("null"), keep())]
#[case::no_containers_say_nothing(one(&json!({}), &json!({})), Some(r#"{"containers":{}}"#), keep())]
#[case::nothing_and_no_annotation(json!({}), None, keep())]
#[case::zero_is_asked_for(
    one(&json!({"kubernetes.io/batch-cpu": "0"}), &json!({})),
    None,
    set(r#"{"containers":{"c":{"requests":{"kubernetes.io/batch-cpu":"0"}}}}"#)
)]
#[case::another_spelling_of_the_same(
    one(&batch("1000", "4Gi"), &batch("1000", "4Gi")),
    Some(r#"{"containers":{"c":{"requests":{"kubernetes.io/batch-memory":"4096Mi","kubernetes.io/batch-cpu":1000},"limits":{"kubernetes.io/batch-cpu":"1k","kubernetes.io/batch-memory":"4Gi"}}},"newer":1}"#),
    keep()
)]
#[case::other_amounts(
    one(&batch("1000", "4Gi"), &batch("1000", "4Gi")),
    Some(r#"{"containers":{"c":{"requests":{"kubernetes.io/batch-cpu":"999"}}}}"#),
    set(ONE_THOUSAND)
)]
#[case::the_last_of_two_containers_with_one_name(
    json!({"containers": [
        {"name": "c", "resources": {"requests": {"kubernetes.io/batch-cpu": "1"}}},
        {"name": "c", "resources": {"requests": {"kubernetes.io/batch-cpu": "2"}}},
        {"name": "c", "resources": {"requests": {"cpu": "3"}}},
    ]}),
    None,
    set(r#"{"containers":{"c":{"requests":{"kubernetes.io/batch-cpu":"2"}}}}"#)
)]
#[case::the_worked_example(
    json!({"containers": [{"name": "main", "resources": {"requests": batch("1500", "2Gi"), "limits": batch("2000", "2Gi")}}]}),
    None,
    set(r#"{"containers":{"main":{"limits":{"kubernetes.io/batch-cpu":"2k","kubernetes.io/batch-memory":"2Gi"},"requests":{"kubernetes.io/batch-cpu":"1500","kubernetes.io/batch-memory":"2Gi"}}}}"#)
)]
fn the_annotation_is_the_same_with_and_without_the_switches(
    #[case] spec: Value,
    #[case] current: Option<&str>,
    #[case] expected: AnnotationChange,
) {
    assert_eq!(decide(&spec, current, Compat::Upstream), expected);
    assert_eq!(decide(&spec, current, Compat::Headroom), expected);
}

#[test]
fn case_62_a_sidecar_is_in_the_annotation_except_in_koordinator() {
    let spec = json!({
        "containers": [{"name": "c"}],
        "initContainers": [
            {"name": "first", "resources": {"requests": {"kubernetes.io/batch-cpu": "200"}}},
            {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"kubernetes.io/batch-cpu": "100"}}},
        ],
    });
    assert_eq!(decide(&spec, None, Compat::Upstream), keep());
    assert_eq!(
        decide(&spec, None, Compat::Headroom),
        set(r#"{"containers":{"side":{"limits":{"kubernetes.io/batch-cpu":"100"}}}}"#)
    );
}

#[test]
fn case_63_a_stale_annotation_is_removed_or_emptied_as_in_koordinator() {
    let spec = one(&json!({"cpu": "1"}), &json!({}));
    let stale = Some(r#"{"containers":{"old":{}}}"#);
    assert_eq!(decide(&spec, stale, Compat::Upstream), set("{}"));
    assert_eq!(decide(&spec, stale, Compat::Headroom), AnnotationChange::Remove);
}

#[rstest]
fn case_65_an_annotation_that_cannot_be_read_is_replaced(
    #[values(
        "{bad",
        "",
        "[]",
        "1",
        r#"{"containers":[]}"#,
        r#"{"containers":{"c":{"limits":{"cpu":"x"}}}}"#,
        r#"{"containers":{"c":[{},{}]}}"#,
        r#"{"containers":{"c":{"requests":[]}}}"#
    )]
    current: &str,
) {
    let (batch, none) = (
        one(&batch("1000", "4Gi"), &batch("1000", "4Gi")),
        one(&json!({}), &json!({})),
    );
    for compat in [Compat::Headroom, Compat::Upstream] {
        assert_eq!(
            decide(&batch, Some(current), compat),
            set(ONE_THOUSAND),
            "{current}"
        );
    }
    assert_eq!(
        decide(&none, Some(current), Compat::Headroom),
        AnnotationChange::Remove
    );
    assert_eq!(decide(&none, Some(current), Compat::Upstream), set("{}"));
}

#[test]
fn a_deep_annotation_is_replaced_without_a_crash() {
    let deep = r#"{"containers":"#.repeat(100_000);
    let spec = one(&json!({}), &json!({}));
    assert_eq!(
        decide(&spec, Some(&deep), Compat::Headroom),
        AnnotationChange::Remove
    );
}

#[test]
fn a_long_annotation_is_replaced_unread() {
    let long = format!("{{}}{}", " ".repeat(LONGEST));
    let spec = one(&json!({}), &json!({}));
    assert_eq!(
        decide(&spec, Some(&long), Compat::Headroom),
        AnnotationChange::Remove
    );
}

#[test]
fn containers_with_too_long_names_are_omitted() {
    for (length, is_in) in [(63, true), (64, false)] {
        let mut spec = one(&batch("1k", "4Gi"), &json!({}));
        spec["containers"][0]["name"] = "c".repeat(length).into();
        let change = decide(&spec, None, Compat::Headroom);
        assert_eq!(change != AnnotationChange::Keep, is_in, "{length}");
    }
}
