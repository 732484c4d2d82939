//! Tests of the amplification key: fields that are read, entries laid over the cluster's settings, and refusals with
//! their path.

use headroom_domain::{
    policy::{AnnotationEffect, Bounds, Floor, Mode, Policy},
    ratio::Cents,
    resource::PerResource,
};
use rstest::rstest;
use serde_json::json;

use super::*;

fn labels(pool: &str) -> Labels {
    Labels::from([("pool".to_owned(), pool.to_owned())])
}

/// Name of the entry and policy of a node in that pool.
fn of_pool(document: &PolicyDocument, pool: &str) -> (Option<String>, Policy) {
    let entry = document.entry(|| labels(pool));
    let cluster = document.cluster.over(Policy::default());
    (
        entry.map(|entry| entry.name.clone()),
        entry.map_or(cluster, |entry| entry.own.over(cluster)),
    )
}

#[rstest]
#[case("")]
#[case("null")]
#[case("{}")]
#[case(r#"{"enable":false,"resourceAmplificationRatio":{"cpu":1.5,"example.com/gpu":100,"memory":null}}"#)]
#[case(
    r#"{"mode":null,"bounds":null,"target":{"cpu":null},"staticMax":{},"nodeConfigs":null,"enable":null}"#
)]
#[case(r#"{"nodeConfigs":[]}"#)]
fn documents_without_our_settings_change_nothing(#[case] text: &str) {
    let document = read(text).unwrap();
    assert_eq!(of_pool(&document, "a"), (None, Policy::default()));
    assert!(!document.cluster.has_mode());
}

#[test]
fn every_field_is_read() {
    let text = json!({
        "enable": true, "resourceAmplificationRatio": {"cpu": 1.5},
        "mode": "auto", "floor": "none", "annotations": "mode", "bounds": {"cpu": {"min": 0.5, "max": 1.85}, "memory": {"max": 1.29}},
        "target": {"cpu": 0.85, "memory": 1}, "staticMax": {"cpu": 3, "memory": 1.1},
    });
    let policy = read(&text.to_string()).unwrap().cluster.over(Policy::default());
    let bounds = |min, max| Bounds {
        min: Cents(min),
        max: Cents(max),
    };
    let expected = Policy {
        mode: Mode::Auto,
        bounds: PerResource {
            cpu: bounds(50, 185),
            memory: bounds(100, 129),
        },
        static_max: PerResource {
            cpu: Cents(300),
            memory: Cents(110),
        },
        floor: Floor::None,
        annotations: AnnotationEffect::Mode,
        target_ppm: PerResource {
            cpu: 850_000,
            memory: 1_000_000,
        },
    };
    assert_eq!(policy, expected);
}

#[test]
fn the_first_entry_that_matches_is_laid_over_the_rest_to_its_depth() {
    let text = json!({
        "mode": "guard", "floor": "none", "bounds": {"cpu": {"min": 0.5, "max": 1.5}, "memory": {"max": 1.2}},
        "nodeConfigs": [
            {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "mode": "auto", "bounds": {"cpu": {"max": 3}}},
            {"nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b"]}]}, "mode": "off"},
            {"name": "", "nodeSelector": {"matchLabels": {"pool": "c"}}, "floor": "requests"},
        ],
    });
    let document = read(&text.to_string()).unwrap();
    let of = |pool| {
        let (
            entry,
            Policy {
                mode, bounds, floor, ..
            },
        ) = of_pool(&document, pool);
        let Bounds { min, max } = bounds.cpu;
        (
            entry.unwrap_or_default(),
            mode,
            min.0,
            max.0,
            bounds.memory.max.0,
            floor,
        )
    };
    assert_eq!(of("a"), ("a".to_owned(), Mode::Auto, 50, 300, 120, Floor::None));
    assert_eq!(
        of("b"),
        ("nodeConfigs[1]".to_owned(), Mode::Off, 50, 150, 120, Floor::None)
    );
    assert_eq!(
        of("c"),
        (
            "nodeConfigs[2]".to_owned(),
            Mode::Guard,
            50,
            150,
            120,
            Floor::Requests
        )
    );
    assert_eq!(of("d"), (String::new(), Mode::Guard, 50, 150, 120, Floor::None));
}

#[test]
fn labels_are_read_only_for_entries() {
    let document = read(r#"{"mode":"auto"}"#).unwrap();
    assert!(
        document
            .entry(|| -> Labels { panic!("asked for in vain") })
            .is_none()
    );
}

/// A document with two entries, the second of which has these members in addition to its selector.
fn second(members: &str) -> String {
    let selector = |pool: &str| format!(r#""nodeSelector":{{"matchLabels":{{"pool":"{pool}"}}}}"#);
    format!(
        r#"{{"nodeConfigs":[{{"name":"a",{}}},{{"name":"b",{},{members}}}]}}"#,
        selector("a"),
        selector("b")
    )
}

#[rstest]
#[case("  ", "is not JSON: EOF while parsing")]
#[case("enable: true", "is not JSON: expected value")]
#[case("{} x", "is not JSON: trailing characters")]
#[case("[]", "is not a JSON object")]
#[case(r#""auto""#, "is not a JSON object")]
#[case(r#"{"mood":"auto"}"#, "mood: unknown field `mood`")]
#[case(r#"{"Mode":"auto"}"#, "Mode: unknown field `Mode`")]
#[case(r#"{"name":"a"}"#, "name: unknown field `name`")]
#[case(
    r#"{"mode":"Auto"}"#,
    "mode: unknown variant `Auto`, expected one of `off`, `static`, `guard`, `auto`"
)]
#[case(
    r#"{"floor":"zero"}"#,
    "floor: unknown variant `zero`, expected `requests` or `none`"
)]
#[case(
    r#"{"enable":"yes"}"#,
    "enable: invalid type: string \"yes\", expected a boolean"
)]
#[case(
    r#"{"bounds":{"cpu":{"max":11}}}"#,
    "bounds.cpu.max: max 11.00 is outside 1.00..10.00"
)]
#[case(
    r#"{"bounds":{"cpu":{"min":0.4}}}"#,
    "bounds.cpu.min: min 0.40 is outside 0.50..1.00"
)]
#[case(r#"{"bounds":{"gpu":{"max":2}}}"#, "bounds.gpu: unknown field `gpu`")]
#[case(r#"{"bounds":{"cpu":2}}"#, "bounds.cpu: invalid type: integer `2`")]
#[case(r#"{"target":{"memory":0}}"#, "target.memory: 0 is outside 0.1..1")]
#[case(r#"{"staticMax":{"cpu":"2"}}"#, "staticMax.cpu: invalid type: string \"2\"")]
#[case(
    r#"{"resourceAmplificationRatio":{"cpu":0.5}}"#,
    "resourceAmplificationRatio.cpu: 0.5 is below 1"
)]
#[case(
    r#"{"resourceAmplificationRatio":{"cpu":-2}}"#,
    "resourceAmplificationRatio.cpu: -2 is out of range"
)]
#[case(
    r#"{"resourceAmplificationRatio":{"cpu":"2"}}"#,
    "resourceAmplificationRatio.cpu: invalid type: string \"2\""
)]
#[case(
    r#"{"resourceAmplificationRatio":[]}"#,
    "resourceAmplificationRatio: invalid type: sequence"
)]
#[case(r#"{"nodeConfigs":{}}"#, "nodeConfigs: invalid type: map")]
#[case(r#"{"nodeConfigs":[null]}"#, "nodeConfigs[0]: is not a JSON object")]
#[case(
    r#"{"nodeConfigs":[{"mode":"off"}]}"#,
    "nodeConfigs[0].nodeSelector: is missing"
)]
#[case(
    r#"{"nodeConfigs":[{"nodeSelector":null}]}"#,
    "nodeConfigs[0].nodeSelector: is missing"
)]
#[case(
    r#"{"nodeConfigs":[{"nodeSelector":{}}]}"#,
    "nodeConfigs[0].nodeSelector: would select every node"
)]
#[case(&second(r#""bounds":{"cpu":{"max":11}}"#), "nodeConfigs[1].bounds.cpu.max: max 11.00 is outside 1.00..10.00")]
#[case(&second(r#""nodeConfigs":[]"#), "nodeConfigs[1].nodeConfigs: unknown field `nodeConfigs`")]
#[case(&second(r#""enable":1"#), "nodeConfigs[1].enable: invalid type: integer `1`")]
#[case(
    r#"{"nodeConfigs":[{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"Exists"},{"key":"a","operator":"In"}]}}]}"#,
    "nodeConfigs[0].nodeSelector.matchExpressions[1]: values: operators In and NotIn need at least one"
)]
#[case(
    r#"{"nodeConfigs":[{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"Foo"}]}}]}"#,
    "nodeConfigs[0].nodeSelector.matchExpressions[0].operator: unknown variant `Foo`"
)]
#[case(
    r#"{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"a":"x y"}}}]}"#,
    "nodeConfigs[0].nodeSelector.matchLabels.a: \"x y\" is not a valid label value"
)]
fn invalid_values_are_refused_with_their_path(#[case] text: &str, #[case] reason: &str) {
    let refusal = read(text).unwrap_err().to_string();
    assert!(refusal.starts_with(reason), "{refusal}");
}

#[test]
fn the_last_of_two_equal_members_wins_like_in_koordinator() {
    let document = read(r#"{"mode":"off","mode":"auto"}"#).unwrap();
    assert_eq!(document.cluster.over(Policy::default()).mode, Mode::Auto);
}
