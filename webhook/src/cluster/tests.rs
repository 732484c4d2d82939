//! What admission and the debug service read: previews, policies and what is bound.

use headroom_domain::{
    capacity::Why,
    hint::NodeHint,
    names,
    policy::{Mode, Source},
    ratio::Cents,
};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{endpoint::Nodes as _, hints::table::tests::hint, informer::Store as _};

/// A cluster in mode `auto` with memory bounds up to 1.50, and all of its Nodes and pods known.
pub(crate) fn cluster(
    nodes: impl IntoIterator<Item = Value>,
    pods: impl IntoIterator<Item = Value>,
) -> Cluster {
    let file = json!({"mode": "auto", "bounds": {"memory": {"max": 1.5}}});
    let file = serde_json::from_value(file).unwrap();
    let cluster = Cluster::new(file, names::SLO_CONFIG.to_owned(), Instant::now());
    cluster.policies.replace(None);
    let mut listing = crate::node::watch::Listing::default();
    for node in nodes {
        Nodes::list(&mut listing, serde_json::from_value(node).unwrap());
    }
    cluster.nodes.replace(listing);
    let mut listing = crate::pods::Listing::default();
    for pod in pods {
        Pods::list(&mut listing, serde_json::from_value(pod).unwrap());
    }
    cluster.pods.replace(listing);
    cluster
}

/// Node `n1` with UID `u1`: capacity 4 CPUs and 8Gi, and that allocatable CPU.
pub(crate) fn node(version: u64, cpu: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {
            "name": "n1", "uid": "u1", "resourceVersion": version.to_string(), "annotations": annotations,
        },
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "allocatable": {"cpu": cpu, "memory": "8Gi"},
            "conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-11-20T00:00:00Z"}],
        },
    })
}

/// A running pod of `n1`.
pub(crate) fn pod(uid: &str, version: u64, cpu: &str) -> Value {
    json!({
        "metadata": {"name": uid, "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"nodeName": "n1", "containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running", "qosClass": "Burstable"},
    })
}

/// What the endpoint leaves on a Node whose raw CPU is 4 and that is amplified to `cpu` by a hint of `cents`.
pub(crate) fn amplified(version: u64, cpu: &str, cents: u32) -> Value {
    let marker = json!({
        "cpu": cpu, "memory": "8Gi", "uid": "u1",
        "from": {"cpu": {"capacity": "4", "raw": "4"}, "memory": {"capacity": "8Gi", "raw": "8Gi"}},
    });
    let note = Note::of(&published(1, cents));
    let annotations = json!({
        names::RAW_ALLOCATABLE: r#"{"cpu":"4","memory":"8Gi"}"#,
        names::MARKER: marker.to_string(),
        names::HINT: note.to_string(),
        names::STATIC_RATIO: "",
    });
    node(version, cpu, &annotations)
}

/// A hint for `n1` with that CPU ratio.
pub(crate) fn published(seq: u64, cents: u32) -> NodeHint {
    let mut hint = hint("n1", seq);
    hint.resources.cpu.published = Cents(cents);
    hint
}

/// A cluster of which the API server has said nothing yet.
fn unheard() -> Cluster {
    Cluster::new(
        Amplification::default(),
        names::SLO_CONFIG.to_owned(),
        Instant::now(),
    )
}

fn ratio(cluster: &Cluster) -> (u32, Standing) {
    let found = cluster.hint("n1", "u1", None, cluster.now()).unwrap();
    (found.note.cpu.published, found.standing)
}

#[test]
fn a_preview_is_what_a_write_of_the_hint_would_come_to() {
    let cluster = cluster([node(1, "4", &json!({}))], [pod("a", 2, "1")]);
    let node = cluster.nodes.get("n1").unwrap();
    let (decision, found) = cluster.preview(&node, cluster.now());
    assert!(decision.allocatable.cpu.is_none() && found.is_none());
    cluster.hints.offer(
        NodeHint {
            pods_generation: 2,
            ..published(1, 128)
        },
        cluster.now(),
    );
    let (decision, found) = cluster.preview(&node, cluster.now());
    assert_eq!(decision.allocatable.cpu.unwrap().to_string(), "5120m");
    assert_eq!(decision.outcomes.cpu.why, [Why::Hint]);
    assert_eq!(found.unwrap().note.seq, 1);
}

#[rstest]
#[case::of_the_newest_pods(7, 150, (150, Standing::Fresh))]
#[case::before_a_pod_came_may_not_raise(6, 150, (120, Standing::Hold))]
#[case::before_a_pod_came_may_lower(6, 110, (110, Standing::Hold))]
fn an_outdated_hint_may_lower_and_not_raise(
    #[case] generation: u64,
    #[case] cents: u32,
    #[case] expected: (u32, Standing),
) {
    let cluster = cluster([amplified(3, "4800m", 120)], [pod("a", 5, "1")]);
    cluster
        .pods
        .apply(serde_json::from_value(pod("b", 7, "1")).unwrap());
    cluster.hints.offer(
        NodeHint {
            pods_generation: generation,
            ..published(2, cents)
        },
        cluster.now(),
    );
    assert_eq!(ratio(&cluster), expected);
}

#[test]
fn an_outdated_hint_for_a_node_without_one_counts_as_no_amplification() {
    let cluster = cluster([node(1, "4", &json!({}))], [pod("a", 5, "1")]);
    cluster.hints.offer(
        NodeHint {
            pods_generation: 4,
            ..published(2, 150)
        },
        cluster.now(),
    );
    assert_eq!(ratio(&cluster), (100, Standing::Hold));
}

#[test]
fn the_mode_annotation_decides_over_the_configuration() {
    let cluster = cluster([node(1, "4", &json!({names::MODE: "off"}))], []);
    let node = cluster.nodes.get("n1").unwrap();
    let in_force = cluster.policy(&node).unwrap();
    assert_eq!(
        (in_force.policy.mode, in_force.mode_from),
        (Mode::Off, Source::Annotation)
    );
    let configured = endpoint::Nodes::policy(&cluster, &Labels::new).unwrap();
    assert_eq!(configured.mode, Mode::Auto);
}

#[test]
fn what_is_bound_is_unknown_until_all_pods_are_known() {
    let cluster = unheard();
    assert_eq!(cluster.bound("n1"), None);
    assert!(!cluster.has_synced());
}

#[test]
fn a_preview_under_an_unknown_policy_is_what_was_decided_last() {
    let cluster = unheard();
    for (version, stored) in [(1, "4800m"), (2, "4")] {
        let mut object = amplified(version, "4800m", 120);
        object["status"]["allocatable"]["cpu"] = stored.into();
        cluster.nodes.apply(serde_json::from_value(object).unwrap());
        let node = cluster.nodes.get("n1").unwrap();
        assert!(cluster.policy(&node).is_none());
        let (decision, _) = cluster.preview(&node, cluster.now());
        assert_eq!(decision.outcomes.cpu.why, [Why::PolicyUnknown]);
        assert_eq!(decision.outcomes.cpu.result, Some(4800));
    }
}
