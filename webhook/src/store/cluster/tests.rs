//! Tests of the cluster's stores as admission and the debug service read them: previews, policies and pods. Other tests
//! use its fixtures.

use headroom_domain::{
    capacity::Why,
    hint::{NodeHint, Note, PodTrust},
    installation::Installation,
    names,
    policy::{Mode, Source},
    ratio::Cents,
};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    control::{nudge, sweep::remedy},
    store::{
        floor::{PolicyState, PolicyStates},
        hint_table::tests::hint,
        informer::Store as _,
    },
};

/// A cluster in mode `auto` with memory bounds up to 1.50, and all of its Nodes and pods known.
pub(crate) fn cluster(
    nodes: impl IntoIterator<Item = Value>,
    pods: impl IntoIterator<Item = Value>,
) -> Cluster {
    let file = json!({"mode": "auto", "bounds": {"memory": {"max": 1.5}}});
    let file = serde_json::from_value(file).unwrap();
    let cluster = Cluster::new(settings(file), Arc::new(Clock::uninterrupted()));
    cluster.policies.replace(None);
    let mut listing = crate::store::nodes::NodeListing::default();
    for node in nodes {
        Nodes::list(&mut listing, serde_json::from_value(node).unwrap());
    }
    cluster.nodes.replace(listing);
    let mut listing = crate::store::pods::PodListing::default();
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

/// Node as the endpoint stores it, with raw CPU 4, amplified to `cpu` by a hint of `cents`.
pub(crate) fn amplified(version: u64, cpu: &str, cents: u32) -> Value {
    let marker = json!({
        "cpu": cpu, "memory": "8Gi", "uid": "u1",
        "from": {"cpu": {"capacity": "4", "raw": "4"}, "memory": {"capacity": "8Gi", "raw": "8Gi"}},
    });
    let note = Note::from_hint(&published(1, cents));
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

/// `cluster` with the gate of amplification off.
pub(crate) fn switched_off(cluster: Cluster) -> Cluster {
    Cluster {
        amplifies: false,
        ..cluster
    }
}

/// Settings with that configuration file, and without more ado.
pub(crate) fn settings(file: Amplification) -> Settings {
    Settings {
        file,
        missing_floor: MissingFloor::Accepted,
        amplifies: true,
        heartbeat_interval: Duration::from_secs(300),
        denies_above_hint: false,
        installation: Installation::default(),
    }
}

/// Cluster before the first watch event.
fn unheard() -> Cluster {
    Cluster::new(settings(Amplification::default()), Arc::default())
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
    assert_eq!(decision.allocatable.cpu.unwrap().to_string(), "4200m");
    assert_eq!(decision.outcomes.cpu.why, [Why::Hint, Why::Slewed]);
    assert_eq!(found.unwrap().note.seq, 1);
}

/// Number of allocations while sweep, nudger and debug service read `n1`.
fn allocations_of_a_look(node: Value) -> u64 {
    let cluster = cluster([node], []);
    let node = cluster.nodes.get("n1").unwrap();
    allocation_counter::measure(|| {
        assert!(remedy::find(&cluster, &node).is_none());
        assert!(nudge::due(&cluster, &node).nudge.is_none());
        assert_eq!(node.raw_allocatable().cpu, Some(4_000));
    })
    .count_total
}

#[test]
fn annotations_are_parsed_once_when_the_watch_brings_a_node() {
    let plain = amplified(3, "4800m", 120);
    let mut padded = plain.clone();
    for key in [names::RAW_ALLOCATABLE, names::MARKER] {
        let text = padded["metadata"]["annotations"][key].as_str().unwrap();
        let mut members: Value = serde_json::from_str(text).unwrap();
        let resources = if key == names::MARKER {
            &mut members["from"]
        } else {
            &mut members
        };
        for other in 0..50 {
            resources[format!("example.com/{other}")] = if key == names::MARKER {
                json!({"raw": "1"})
            } else {
                json!("1")
            };
        }
        padded["metadata"]["annotations"][key] = members.to_string().into();
    }
    assert_eq!(allocations_of_a_look(padded), allocations_of_a_look(plain));
}

/// Ratio and reasons of a hint one frame after the last write of the Node.
fn hinted(cluster: &Cluster, hint: NodeHint) -> (u32, Vec<Why>) {
    let now = cluster.now() + Duration::from_secs(300);
    cluster.hints.offer(hint, now);
    let node = cluster.nodes.get("n1").unwrap();
    let (decision, _) = cluster.preview(&node, now);
    (decision.outcomes.cpu.hinted.unwrap().0, decision.outcomes.cpu.why)
}

#[rstest]
#[case::of_the_newest_pods(7, 124, (124, vec![Why::Hint]))]
#[case::before_a_pod_came_may_not_raise(6, 124, (120, vec![Why::Hint, Why::OlderPods]))]
#[case::before_a_pod_came_may_lower(6, 110, (110, vec![Why::Hint, Why::OlderPods]))]
fn an_outdated_hint_may_lower_and_not_raise(
    #[case] generation: u64,
    #[case] cents: u32,
    #[case] expected: (u32, Vec<Why>),
) {
    let cluster = cluster([amplified(3, "4800m", 120)], [pod("a", 5, "1")]);
    cluster
        .pods
        .apply(serde_json::from_value(pod("b", 7, "1")).unwrap());
    let hint = NodeHint {
        pods_generation: generation,
        ..published(2, cents)
    };
    assert_eq!(hinted(&cluster, hint), expected);
}

#[test]
fn with_the_gate_off_every_node_is() {
    let asks = node(1, "4", &json!({names::MODE: "auto"}));
    let cluster = switched_off(cluster([asks], []));
    let in_force = cluster.policy(&cluster.nodes.get("n1").unwrap()).unwrap();
    assert_eq!(
        (in_force.policy.mode, in_force.mode_from),
        (Mode::Off, Source::Gate)
    );
}

#[rstest]
#[case::may_not_raise(124, 120)]
#[case::may_lower(110, 110)]
fn a_hint_without_the_floor(#[case] cents: u32, #[case] expected: u32) {
    let cluster = cluster([amplified(3, "4800m", 120)], []);
    let floor = Floor::new(
        Installation::default(),
        MissingFloor::BlocksRaises,
        Arc::clone(&cluster.changes),
    );
    let cluster = Cluster {
        floor: Arc::new(floor),
        ..cluster
    };
    let (ratio, why) = hinted(&cluster, published(2, cents));
    assert_eq!((ratio, why.last()), (expected, Some(&Why::NoFloor)));
    cluster.floor.record(PolicyStates {
        floor: PolicyState::InForce,
        annotations: PolicyState::InForce,
    });
    assert_eq!(hinted(&cluster, published(3, cents)).0, cents);
}

#[test]
fn an_outdated_hint_for_a_node_without_one_counts_as_no_amplification() {
    let cluster = cluster([node(1, "4", &json!({}))], [pod("a", 5, "1")]);
    let hint = NodeHint {
        pods_generation: 4,
        ..published(2, 150)
    };
    assert_eq!(hinted(&cluster, hint).0, 100);
}

#[rstest]
#[case::the_nodes_own(4000, 8 << 30, 124)]
#[case::not_said(0, 0, 124)]
#[case::without_its_huge_pages(4000, 4 << 30, 124)]
#[case::fewer_cpus(3900, 8 << 30, 120)]
#[case::more_cpus(8000, 8 << 30, 120)]
#[case::more_memory(4000, 9 << 30, 120)]
fn a_hint_of_another_capacity_may_not_raise(#[case] cpu: u64, #[case] memory: u64, #[case] expected: u32) {
    let cluster = cluster([amplified(3, "4800m", 120)], []);
    let mut hint = published(2, 124);
    (hint.resources.cpu.capacity, hint.resources.memory.capacity) = (cpu, memory);
    assert_eq!(hinted(&cluster, hint).0, expected);
}

fn trusted(uid: &str, exclusive_cpus_milli: u64) -> PodTrust {
    PodTrust {
        uid: uid.to_owned(),
        cpu_ppm: 1_000_000,
        memory_ppm: 0,
        exclusive_cpus_milli,
    }
}

/// Capacity 4, predicted peak 1.5, trusted pods of 1.5 and 1: 0.9 x 4 - 1.5 + 2.5 = 1.15 x 4.
#[test]
fn what_a_pod_that_is_leaving_was_trusted_with_goes_at_once() {
    let cluster = cluster(
        [amplified(3, "4600m", 115)],
        [pod("a", 5, "1500m"), pod("b", 6, "1")],
    );
    let mut hint = NodeHint {
        pods_generation: 6,
        trust: vec![trusted("a", 0), trusted("b", 0)],
        ..published(2, 115)
    };
    let cpu = &mut hint.resources.cpu;
    (cpu.capacity, cpu.predicted_peak, cpu.warm_requests) = (4000, 1500, 2500);
    cpu.coverage_ppm = 1_000_000;
    assert_eq!(hinted(&cluster, hint.clone()).0, 115);
    let mut leaving = pod("b", 7, "1");
    leaving["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z".into();
    cluster.pods.apply(serde_json::from_value(leaving).unwrap());
    hint.seq += 1;
    assert_eq!(hinted(&cluster, hint).0, 100);
}

#[test]
fn cpus_are_exclusive_to_guaranteed_pods_that_are_there_and_no_more_than_they_asked_for() {
    let guaranteed = |uid, version| {
        let mut pod = pod(uid, version, "2");
        pod["status"]["qosClass"] = "Guaranteed".into();
        pod
    };
    let cluster = cluster(
        [amplified(3, "4600m", 115)],
        [guaranteed("a", 5), guaranteed("b", 6), pod("c", 7, "2")],
    );
    let exclusive = |cluster: &Cluster| {
        let node = cluster.nodes.get("n1").unwrap();
        let (_, found) = cluster.preview(&node, cluster.now());
        found.unwrap().note.excl
    };
    let hint = NodeHint {
        pods_generation: 7,
        trust: vec![
            trusted("a", 1000),
            trusted("b", 9000),
            trusted("c", 2000),
            trusted("d", 500),
        ],
        ..published(2, 115)
    };
    cluster.hints.offer(hint, cluster.now());
    assert_eq!(exclusive(&cluster), 3000);
    cluster.hints.forget("n1");
    let mut note: Note = amplified(9, "4600m", 115)["metadata"]["annotations"][names::HINT]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    note.excl = 9000;
    let mut object = amplified(9, "4600m", 115);
    object["metadata"]["annotations"][names::HINT] = note.to_string().into();
    cluster.nodes.apply(serde_json::from_value(object).unwrap());
    assert_eq!(
        exclusive(&cluster),
        4000,
        "of what a replica without the agent reads"
    );
}

/// A kubelet before 1.33 does not report reservations, and its admitted pods count with their requests.
#[rstest]
#[case::told("v1.36.3", 4000)]
#[case::claimed_not_to_be_told("v1.32.9", 8000)]
fn a_false_version_of_a_kubelet_gains_at_most_the_cap(#[case] version: &str, #[case] expected: u64) {
    let mut object = node(1, "4", &json!({}));
    object["status"]["nodeInfo"] = json!({"kubeletVersion": version});
    let mut huge = pod("huge", 2, "1000");
    huge["status"]["containerStatuses"] = json!([{"name": "a"}]);
    let cluster = cluster([object], [huge]);
    let hint = NodeHint {
        pods_generation: 2,
        ..published(1, 100)
    };
    cluster.hints.offer(hint, cluster.now());
    let node = cluster.nodes.get("n1").unwrap();
    let (decision, _) = cluster.preview(&node, cluster.now());
    assert_eq!(decision.outcomes.cpu.result, Some(expected));
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
    let configured = NodeLookup::policy(&cluster, &|| Cow::Owned(Labels::new())).unwrap();
    assert_eq!(configured.mode, Mode::Auto);
}

#[test]
fn what_is_bound_is_unknown_until_all_pods_are_known() {
    let cluster = unheard();
    assert_eq!(cluster.pod_demand("n1", PerResource::default(), true), None);
    assert!(!cluster.has_synced());
}

#[test]
fn a_store_that_is_not_followed_any_more_lowers_nothing() {
    let stores: [fn(&Cluster, bool); 3] = [
        |cluster, is_known| cluster.pods.set_known(is_known),
        |cluster, is_known| cluster.nodes.set_known(is_known),
        |cluster, is_known| cluster.policies.set_known(is_known),
    ];
    for set_known in stores {
        lowers_nothing_while_unknown(set_known);
    }
}

fn lowers_nothing_while_unknown(set_known: fn(&Cluster, bool)) {
    let cluster = cluster([amplified(3, "4800m", 120)], [pod("a", 2, "1")]);
    let result = || {
        let node = cluster.nodes.get("n1").unwrap();
        let (decision, _) = cluster.preview(&node, cluster.now());
        decision.outcomes.cpu.result
    };
    let braked = NodeHint {
        pods_generation: u64::MAX,
        ..published(2, 100)
    };
    cluster.hints.offer(braked, cluster.now());
    assert_eq!(result(), Some(4000));
    set_known(&cluster, false);
    assert!(!cluster.has_synced());
    assert_eq!(result(), Some(4800));
    set_known(&cluster, true);
    assert_eq!((cluster.has_synced(), result()), (true, Some(4000)));
}

#[test]
fn while_nodes_are_not_followed_nobody_is_nudged() {
    let cluster = cluster([amplified(3, "4800m", 120)], []);
    let node = cluster.nodes.get("n1").unwrap();
    cluster.hints.offer(published(2, 110), cluster.now());
    let is_due = || nudge::due(&cluster, &node).nudge.is_some();
    let mut followed = cluster.changes.follow("n1");
    cluster.nodes.set_known(false);
    assert!(followed.has_changed().unwrap() && !is_due());
    assert_eq!(cluster.is_contested("n1"), None);
    followed.mark_unchanged();
    cluster.nodes.set_known(true);
    assert!(followed.has_changed().unwrap() && is_due());
}

#[test]
fn a_preview_under_an_unknown_policy_is_what_was_decided_last() {
    let cluster = unheard();
    for (version, stored, kept) in [(1, "4800m", 4800), (2, "4", 4000)] {
        let mut object = amplified(version, "4800m", 120);
        object["status"]["allocatable"]["cpu"] = stored.into();
        cluster.nodes.apply(serde_json::from_value(object).unwrap());
        let node = cluster.nodes.get("n1").unwrap();
        assert!(cluster.policy(&node).is_none());
        let (decision, _) = cluster.preview(&node, cluster.now());
        assert_eq!(decision.outcomes.cpu.why, [Why::PolicyUnknown]);
        assert_eq!(decision.outcomes.cpu.result, Some(kept));
    }
}
