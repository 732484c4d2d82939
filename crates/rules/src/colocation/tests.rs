//! Tests of QoS classes and bands, by the numbers of the cases of pods.

use headroom_domain::pod::Pod;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{SWITCHES, switch::Compat};

/// A Pod with this class, priority and band, whose container requests these amounts.
fn pod(class: &str, priority: i32, band: &str, requests: &Value) -> Value {
    let labels = [(names::QOS_CLASS, class), (names::PRIORITY_CLASS, band)];
    let labels: Labels = labels
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let container = json!({"name": "c", "resources": {"requests": requests}});
    json!({"metadata": {"labels": labels}, "spec": {"priority": priority, "containers": [container]}})
}

fn read(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

fn view(pod: &Pod) -> ColocatedPod<'_> {
    ColocatedPod {
        labels: &pod.metadata.labels,
        spec: &pod.spec,
    }
}

fn message(pod: &Value, stored: Option<&Value>, switches: &Switches) -> String {
    let (pod, stored) = (read(pod), stored.map(read));
    let errors = check(
        view(&pod),
        stored.as_ref().map(view),
        SubPriority::Stays,
        switches,
    );
    if errors.is_empty() {
        String::new()
    } else {
        errors.to_string()
    }
}

fn ours() -> Switches {
    Switches::preset(SWITCHES, Compat::Headroom)
}

fn upstream() -> Switches {
    Switches::preset(SWITCHES, Compat::Upstream)
}

fn cpu(amount: &str) -> Value {
    json!({"cpu": amount})
}

const CPUS: &str = "pod.spec.containers[*].resources.requests: ";

#[rstest]
#[case::case_84("BE", 6500, "", json!({}), "Pod: Forbidden: koordinator.sh/qosClass=BE and priorityClass= cannot be used in combination")]
#[case::case_85("BE", 9500, "", json!({}), "Pod: Forbidden: koordinator.sh/qosClass=BE and priorityClass=koord-prod cannot be used in combination")]
#[case::case_86("BE", 7500, "", json!({}), "")]
#[case::case_87("LSR", 9500, "", cpu("2"), "")]
#[case::case_88(
    "LSR",
    7500,
    "",
    cpu("1"),
    "Pod: Forbidden: koordinator.sh/qosClass=LSR and priorityClass=koord-mid cannot be used in combination"
)]
#[case::case_95("LSE", 5500, "", cpu("2"), "")]
#[case::case_157("LSR", 5500, "koord-prod", cpu("1"), "")]
#[case::case_98("be", 5500, "", json!({"kubernetes.io/batch-cpu": 1000}), "labels.koordinator.sh/qosClass: Required value: must specify koordinator QoS BE with koordinator colocation resources")]
#[case::case_99("", 5500, "", json!({"kubernetes.io/batch-cpu": 0, "kubernetes.io/batch-memory": "0", "kubernetes.io/mid-cpu": 1}), "")]
#[case::memory_of_batch("", 5500, "", json!({"kubernetes.io/batch-memory": 1}), "labels.koordinator.sh/qosClass: Required value: must specify koordinator QoS BE with koordinator colocation resources")]
fn a_new_pod_has_a_class_and_a_band_that_go_together(
    #[case] class: &str,
    #[case] priority: i32,
    #[case] band: &str,
    #[case] requests: Value,
    #[case] expected: &str,
) {
    let pod = pod(class, priority, band, &requests);
    for switches in [ours(), upstream()] {
        assert_eq!(message(&pod, None, &switches), expected);
    }
}

#[rstest]
#[case::none("0", "Required value: LSR Pod must declare the requested CPUs")]
#[case::case_90(
    "1500m",
    "Invalid value: \"1500m\": the requested CPUs of LSR Pod must be integer"
)]
#[case::spelt_otherwise(
    "1.5e0",
    "Invalid value: \"1500e-3\": the requested CPUs of LSR Pod must be integer"
)]
#[case::a_millionth("1u", "Invalid value: \"1u\": the requested CPUs of LSR Pod must be integer")]
#[case::nearly_whole("0.9999", "")]
#[case::whole("1000m", "")]
#[case::huge("1e400", "")]
fn exclusive_cpus_are_whole(#[case] amount: &str, #[case] expected: &str) {
    let expected = if expected.is_empty() {
        String::new()
    } else {
        format!("{CPUS}{expected}")
    };
    for class in ["LSR", "LSE"] {
        let pod = pod(class, 9500, "", &cpu(amount));
        assert_eq!(message(&pod, None, &upstream()), expected, "{class}");
    }
}

#[rstest]
#[case::case_91_two_halves(json!({"containers": [{"resources": {"requests": {"cpu": "500m"}}}, {"resources": {"requests": {"cpu": "500m"}}}]}), None)]
#[case::case_92_overhead(json!({"overhead": {"cpu": "250m"}}), Some("1250m"))]
#[case::case_93_init_container(json!({"initContainers": [{"resources": {"requests": {"cpu": "1500m"}}}]}), Some("1500m"))]
#[case::case_94_sidecar(json!({"initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}]}), None)]
#[case::half_a_sidecar(json!({"initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}]}), Some("1500m"))]
#[case::case_155_of_the_pod(json!({"containers": [{}], "resources": {"requests": {"cpu": 2}}}), None)]
#[case::half_of_the_pod(json!({"resources": {"requests": {"cpu": "2500m"}}}), Some("2500m"))]
fn cpu_requests_count_in_every_field(#[case] spec: Value, #[case] told_value: Option<&str>) {
    let mut pod = pod("LSR", 9500, "", &cpu("1"));
    for (name, value) in spec.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    let expected = told_value.map_or_else(String::new, |value| {
        format!("{CPUS}Invalid value: \"{value}\": the requested CPUs of LSR Pod must be integer")
    });
    assert_eq!(message(&pod, None, &ours()), expected);
}

#[rstest]
#[case::case_102(pod("BE", 5500, "", &json!({})), pod("LS", 5500, "", &json!({})), "labels.koordinator.sh/qosClass: Invalid value: \"LS\": field is immutable")]
#[case::case_103(pod("LS", 0, "", &json!({})), pod("", 0, "", &json!({})), "labels.koordinator.sh/qosClass: Invalid value: \"\": field is immutable")]
#[case::case_104(pod("foo", 0, "", &json!({})), pod("", 0, "", &json!({})), "")]
#[case::case_105(pod("", 5500, "", &json!({})), pod("", 5500, "koord-prod", &json!({})), "spec.priority: Invalid value: \"koord-prod\": field is immutable")]
#[case::case_106(pod("", 5000, "", &json!({})), pod("", 5000, "koord-batch", &json!({})), "")]
#[case::a_band_goes(pod("", 5000, "", &json!({})), pod("", 5000, "other", &json!({})), "spec.priority: Invalid value: \"\": field is immutable")]
fn class_and_band_stay(#[case] stored: Value, #[case] pod: Value, #[case] expected: &str) {
    for switches in [ours(), upstream()] {
        assert_eq!(message(&pod, Some(&stored), &switches), expected);
    }
}

#[test]
fn a_pod_without_a_band_gets_one_once_except_in_koordinator() {
    let (stored, given) = (pod("", 0, "", &json!({})), pod("", 0, "koord-mid", &json!({})));
    assert_eq!(message(&given, Some(&stored), &ours()), "");
    assert_eq!(
        message(&given, Some(&stored), &upstream()),
        "spec.priority: Invalid value: \"koord-mid\": field is immutable"
    );
}

#[test]
fn the_sub_priority_stays_unless_a_gate_lets_it_change() {
    let mut stored = pod("", 0, "", &json!({}));
    let mut other = stored.clone();
    stored["metadata"]["labels"][names::SUB_PRIORITY] = "9999".into();
    other["metadata"]["labels"][names::SUB_PRIORITY] = "x".repeat(100_000).into();
    let text = message(&other, Some(&stored), &ours());
    assert!(
        text.starts_with("labels.koordinator.sh/priority: Invalid value: \"xxx") && text.len() < 200,
        "{text}"
    );
    let (other, stored) = (read(&other), read(&stored));
    assert!(check(view(&other), Some(view(&stored)), SubPriority::MayChange, &ours()).is_empty());
}

#[test]
fn a_legacy_pod_may_keep_its_faults_but_get_no_new_ones() {
    let legacy = pod("LSR", 0, "", &cpu("500m"));
    assert_eq!(message(&legacy, Some(&legacy), &ours()), "");
    assert!(message(&legacy, Some(&legacy), &upstream()).contains("\"500m\""));
    let resized = pod("LSR", 0, "", &cpu("1500m"));
    let text = message(&resized, Some(&legacy), &ours());
    assert_eq!(
        text,
        format!("{CPUS}Invalid value: \"1500m\": the requested CPUs of LSR Pod must be integer")
    );
}

#[test]
fn the_strict_matrix_needs_its_switch() {
    let strict = Switches::parse(SWITCHES, Compat::Headroom, "ColocationStrictMatrix=true").unwrap();
    let lse = pod("LSE", 5500, "", &cpu("1"));
    assert_eq!(message(&lse, None, &ours()), "");
    assert_eq!(
        message(&lse, None, &strict),
        "Pod: Forbidden: koordinator.sh/qosClass=LSE and priorityClass=koord-batch cannot be used in combination"
    );
}

proptest! {
    #[test]
    fn an_update_that_changes_nothing_passes(
        class in prop::sample::select(vec!["", "LSE", "LSR", "LS", "BE", "SYSTEM", "be"]),
        priority in prop::sample::select(vec![0, 3500, 5500, 7500, 9500, -1]),
        band in prop::sample::select(vec!["", "koord-prod", "koord-free", "other"]),
        amounts in prop::collection::btree_map(
            prop::sample::select(vec!["cpu", "kubernetes.io/batch-cpu"]),
            prop::sample::select(vec!["0", "1", "1500m", "-1", "1e300"]),
            0..3,
        ),
    ) {
        let pod = pod(class, priority, band, &json!(amounts));
        prop_assert_eq!(message(&pod, Some(&pod), &ours()), "");
        // Koordinator refuses an update for the same reasons as a creation.
        prop_assert_eq!(message(&pod, Some(&pod), &upstream()), message(&pod, None, &upstream()));
    }
}
