//! Tests of device checks, by the numbers of the cases of pods.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{SWITCHES, switch::Compat};

fn spec(spec: &Value) -> PodSpec {
    serde_json::from_value(spec.clone()).unwrap()
}

/// A container that asks for these; `core` stands for `koordinator.sh/gpu-core`, and so on.
fn container(requests: &Value) -> Value {
    let name = |short: &str| match short {
        "gpu" => names::GPU,
        "core" => names::GPU_CORE,
        "memory" => names::GPU_MEMORY,
        "ratio" => names::GPU_MEMORY_RATIO,
        "shared" => names::GPU_SHARED,
        "npu" => names::HUAWEI_NPU_CORE,
        other => panic!("no device {other}"),
    };
    let requests: Value = requests
        .as_object()
        .unwrap()
        .iter()
        .map(|(short, amount)| (name(short).to_owned(), amount.clone()))
        .collect();
    json!({"resources": {"requests": requests}})
}

fn texts(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn switches(compat: Compat, list: &str) -> Switches {
    Switches::parse(SWITCHES, compat, list).unwrap()
}

#[rstest]
#[case::case_114(json!({"shared": 2}), &["Forbidden: GPU memory and GPU memory ratio all is zero"])]
#[case::case_115(json!({"shared": 1, "memory": "8Gi", "ratio": 50}), &["Forbidden: declare GPU memory and GPU memory ratio at same time"])]
#[case::case_116(json!({"shared": 2, "core": 101, "ratio": 100}), &["Invalid value: \"101\": the requested gpuCore must multiple of shared"])]
#[case::case_117(json!({"shared": 2, "ratio": 101}), &["Invalid value: \"101\": the requested gpuMemoryRatio must multiple of shared"])]
#[case::both_shares(
    json!({"shared": 2, "core": 3, "ratio": 5}),
    &[
        "Invalid value: \"3\": the requested gpuCore must multiple of shared",
        "Invalid value: \"5\": the requested gpuMemoryRatio must multiple of shared",
    ]
)]
#[case::case_118(json!({"shared": 0, "ratio": 50}), &["Invalid value: \"0\": the requested GPU must be greater than zero"])]
#[case::no_cards_and_nothing_else(
    json!({"shared": 0}),
    &[
        "Invalid value: \"0\": the requested GPU must be greater than zero",
        "Forbidden: GPU memory and GPU memory ratio all is zero",
    ]
)]
#[case::case_119(json!({"shared": 1, "npu": 8}), &[])]
#[case::case_120(json!({"gpu": 100, "shared": 1}), &["Forbidden: Forbidden declare GPU and GPU share at same time"])]
#[case::case_121(json!({"gpu": 150}), &["Invalid value: \"150\": the requested GPU must be percentage of 100"])]
#[case::case_121_a_share(json!({"gpu": 70}), &[])]
#[case::case_121_two_cards(json!({"gpu": 200}), &[])]
#[case::no_percent(json!({"gpu": 0}), &["Invalid value: \"0\": the requested GPU must be greater than zero"])]
#[case::negative_cards(json!({"shared": -1, "memory": 1}), &[])]
#[case::no_devices(json!({"core": 101}), &[])]
fn each_container_asks_for_what_cards_have(#[case] requests: Value, #[case] expected: &[&str]) {
    let expected: Vec<String> = expected
        .iter()
        .map(|text| format!("pod.spec.containers[*].resources.requests: {text}"))
        .collect();
    let spec = spec(&json!({"containers": [container(&requests), container(&requests)]}));
    for compat in [Compat::Headroom, Compat::Upstream] {
        let errors = check(&spec, None, &switches(compat, ""));
        assert_eq!(texts(&errors), expected, "equal ones of two containers are one");
        assert!(check(&spec, Some(&spec), &switches(Compat::Headroom, "")).is_empty());
    }
}

#[rstest]
#[case::case_122(json!({"shared": 1, "ratio": 150}), &["\"150\": the requested gpuMemoryRatio must be at most 100 for each GPU"])]
#[case::cores(json!({"shared": 2, "core": 400, "memory": 1}), &["\"400\": the requested gpuCore must be at most 100 for each GPU"])]
#[case::all_of_each(json!({"shared": 2, "core": 200, "ratio": 200}), &[])]
fn no_card_has_more_than_all_of_itself(#[case] requests: Value, #[case] expected: &[&str]) {
    let spec = spec(&json!({"containers": [container(&requests)]}));
    let expected: Vec<String> = expected
        .iter()
        .map(|text| format!("pod.spec.containers[*].resources.requests: Invalid value: {text}"))
        .collect();
    assert_eq!(
        texts(&check(&spec, None, &switches(Compat::Headroom, ""))),
        expected
    );
    assert!(check(&spec, None, &switches(Compat::Upstream, "")).is_empty());
}

#[test]
fn init_containers_are_checked_unless_koordinator_counts() {
    let spec = spec(&json!({"initContainers": [container(&json!({"gpu": 150}))]}));
    assert_eq!(
        texts(&check(&spec, None, &switches(Compat::Headroom, ""))),
        [
            "pod.spec.initContainers[*].resources.requests: Invalid value: \"150\": the requested GPU must be percentage of 100"
        ]
    );
    assert!(check(&spec, None, &switches(Compat::Upstream, "")).is_empty());
}

#[test]
fn a_place_is_named_for_those_who_ask() {
    let faulty = container(&json!({"gpu": 150}));
    let spec = spec(&json!({"containers": [faulty, container(&json!({})), faulty]}));
    let errors = check(
        &spec,
        None,
        &switches(Compat::Headroom, "DeviceNamesContainers=true"),
    );
    let fields: Vec<&str> = errors.iter().map(Error::field).collect();
    assert_eq!(
        fields,
        [
            "pod.spec.containers[0].resources.requests",
            "pod.spec.containers[2].resources.requests"
        ]
    );
}
