//! Tests of `/mutate-node-status` over a replica's own stores: values taken from the stores, and from the write alone.

use headroom_domain::{hint::Brake, names};
use rstest::rstest;

use super::*;
use crate::store::{
    clock::Clock,
    cluster::{
        Cluster,
        tests::{amplified, cluster, published, settings},
    },
    informer::Store as _,
};

/// Sync of the kubelet of `n1`, amplified to 4.8 CPUs: it writes raw and the result of `changes`, with a moved
/// heartbeat. Returns the verdict, and the object as it would be stored.
fn synced(cluster: Cluster, old: &Value, changes: impl FnOnce(&mut Value)) -> (Value, Value) {
    written(cluster, "system:node:n1", old, |new| {
        new["status"]["allocatable"]["cpu"] = json!("4");
        new["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-20T00:05:00Z");
        changes(new);
    })
}

/// The verdict on a status write of `n1` by that user, and the object as it would be stored.
fn written(cluster: Cluster, user: &str, old: &Value, changes: impl FnOnce(&mut Value)) -> (Value, Value) {
    let mut new = old.clone();
    changes(&mut new);
    let groups = user.starts_with("system:node").then_some([names::NODES_GROUP]);
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r", "operation": "UPDATE", "name": "n1", "subResource": "status",
            "kind": {"group": "", "version": "v1", "kind": "Node"},
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "userInfo": {"username": user, "groups": groups},
            "object": new, "oldObject": old,
        },
    });
    let endpoint = ENDPOINTS
        .iter()
        .find(|endpoint| endpoint.declaration().path == "/mutate-node-status");
    let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
    let router = router_over(Arc::new(cluster));
    let answer = router.answer(*endpoint.unwrap(), review.to_string().as_bytes(), deadline);
    let verdict = serde_json::from_slice::<Value>(&answer.body).unwrap()["response"].clone();
    assert_eq!(verdict["allowed"], true, "{verdict}");
    json_patch::patch(&mut new, &patch_of(&verdict)).unwrap();
    (verdict, new)
}

fn annotation<'a>(node: &'a Value, key: &str) -> &'a str {
    node["metadata"]["annotations"][key].as_str().unwrap()
}

/// A cluster that knows `old`, with a fresh report that asks for 1.10 and speaks of a machine of 4 CPUs.
fn reported(old: &Value) -> Cluster {
    let cluster = cluster([old.clone()], []);
    let mut hint = published(2, 110);
    hint.resources.cpu.capacity = 4000;
    hint.pods_generation = u64::MAX;
    cluster.hints.offer(hint, cluster.now());
    cluster
}

#[test]
fn a_capacity_that_changes_with_the_write_counts_at_once() {
    let old = amplified(1, "4800m", 120);
    let told = |changes: fn(&mut Value)| {
        let (verdict, new) = synced(reported(&old), &old, changes);
        assert_eq!(new["status"]["allocatable"]["cpu"], "4400m");
        verdict["auditAnnotations"]["allocatable"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(!told(|_same| ()).contains("other-capacity"));
    let told = told(|new| new["status"]["capacity"]["cpu"] = json!("8"));
    assert!(told.contains("other-capacity"), "{told}");
}

#[test]
fn memory_pressure_that_begins_with_the_write_counts_at_once() {
    let old = amplified(1, "4800m", 120);
    let brake_of_memory = |status: &str| {
        let (_, new) = synced(reported(&old), &old, |new| {
            let conditions = new["status"]["conditions"].as_array_mut().unwrap();
            conditions.push(json!({"type": "MemoryPressure", "status": status}));
        });
        let note: Value = serde_json::from_str(annotation(&new, names::HINT)).unwrap();
        note["memory"]["brake"].clone()
    };
    assert_eq!(brake_of_memory("False"), 0);
    assert_eq!(brake_of_memory("True"), 3);
}

#[test]
fn beside_a_hint_of_a_later_layout_what_was_written_last_is_held() {
    let synced = |hint: Option<&str>| {
        let mut old = amplified(1, "4800m", 120);
        let annotations = old["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(names::HINT);
        annotations.extend(hint.map(|hint| (names::HINT.to_owned(), json!(hint))));
        let (_, new) = synced(cluster([old.clone()], []), &old, |_same| ());
        let hints = [&old, &new].map(|node| node["metadata"]["annotations"].get(names::HINT).cloned());
        assert_eq!(hints[0], hints[1], "a later version's hint is not ours to change");
        new["status"]["allocatable"]["cpu"].clone()
    };
    assert_eq!(synced(Some(r#"{"v":2,"uid":"u1"}"#)), "4800m");
    assert_eq!(synced(None), "4", "nothing was measured");
}

/// The Node with additional annotations or labels whose keys fill the 256 KiB that Kubernetes stores of annotations.
fn widened(mut node: Value, map: &str) -> Value {
    let members = (0..65_000).map(|number| (format!("{number:x}"), json!("")));
    let map = &mut node["metadata"][map];
    if map.is_null() {
        *map = json!({});
    }
    map.as_object_mut().unwrap().extend(members);
    node
}

#[rstest]
#[case::annotations("annotations")]
#[case::labels("labels")]
fn a_node_with_more_annotations_or_labels_than_are_opened_is_lowered(#[case] map: &str) {
    let old = widened(amplified(1, "4800m", 120), map);
    let braked = || {
        let cluster = reported(&old);
        let mut hint = published(3, 110);
        hint.resources.cpu.brake = Brake::Stop;
        cluster.hints.offer(hint, cluster.now());
        cluster
    };
    let cpu = |(_, new): (Value, Value)| new["status"]["allocatable"]["cpu"].clone();
    assert_eq!(cpu(synced(reported(&old), &old, |_same| ())), "4400m");
    assert_eq!(cpu(written(braked(), names::WEBHOOK_USER, &old, |_same| ())), "4");
    let mut off = old;
    off["metadata"]["annotations"][names::MODE] = json!("off");
    assert_eq!(cpu(written(reported(&off), "somebody", &off, |_same| ())), "4");
}

#[rstest]
#[case::annotations("annotations")]
#[case::labels("labels")]
fn a_node_with_more_annotations_or_labels_than_are_opened_has_the_policy_of_its_pool(#[case] map: &str) {
    let mut old = widened(amplified(1, "4800m", 120), map);
    old["metadata"]["labels"]["pool"] = json!("web");
    let pools =
        r#"{"nodeConfigs":[{"name":"web","nodeSelector":{"matchLabels":{"pool":"web"}},"mode":"off"}]}"#;
    let config_map = json!({
        "metadata": {"name": names::SLO_CONFIG, "resourceVersion": "1"},
        "data": {names::AMPLIFICATION_CONFIG: pools},
    });
    let cluster = reported(&old);
    cluster
        .policies
        .replace(Some(serde_json::from_value(config_map).unwrap()));
    let (_, new) = written(cluster, "somebody", &old, |_same| ());
    assert_eq!(new["status"]["allocatable"]["cpu"], "4");
}

#[test]
fn a_heartbeat_of_a_node_with_more_annotations_than_are_opened_is_quieted() {
    let first = widened(amplified(1, "4800m", 120), "annotations");
    let (_, old) = synced(cluster([first.clone()], []), &first, |_same| ());
    let (verdict, new) = synced(cluster([old.clone()], []), &old, |new| {
        new["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-20T00:05:10Z");
    });
    assert!(new == old, "{verdict}");
}

#[test]
fn heartbeat_of_a_kubelet_with_a_shared_user_is_quieted() {
    let first = amplified(1, "4800m", 120);
    let (_, old) = synced(cluster([first.clone()], []), &first, |_same| ());
    let (verdict, new) = written(cluster([old.clone()], []), "system:node", &old, |new| {
        new["status"]["allocatable"]["cpu"] = json!("4");
        new["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-20T00:05:10Z");
    });
    assert!(new == old, "{verdict}");
}

#[rstest]
#[case::changed(names::MARKER, "{}")]
#[case::of_no_meaning("headroom.sh/x", "1")]
fn a_kubelet_changes_no_annotation_of_ours_among_more_than_are_opened(#[case] key: &str, #[case] text: &str) {
    let old = widened(amplified(1, "4800m", 120), "annotations");
    let (_, new) = synced(reported(&old), &old, |new| {
        new["metadata"]["annotations"][key] = json!(text);
        new["metadata"]["annotations"]["one-more"] = json!("");
    });
    assert_eq!(new["status"]["allocatable"]["cpu"], "4400m");
    assert_eq!(new["metadata"]["annotations"]["one-more"], "");
    assert_ne!(new["metadata"]["annotations"].get(key), Some(&json!(text)));
}

/// Our conditions of a Node, each with status and time of its last transition.
fn our_conditions(node: &Value) -> Vec<[&str; 3]> {
    let conditions = node["status"]["conditions"].as_array().unwrap().iter();
    conditions
        .map(|condition| {
            ["type", "status", names::LAST_TRANSITION_TIME]
                .map(|name| condition[name].as_str().unwrap_or_default())
        })
        .filter(|[kind, ..]| kind.starts_with(names::DOMAIN))
        .collect()
}

/// The Node with these conditions of ours, between two others.
fn with_conditions(mut node: Value, ours: &[[&str; 3]]) -> Value {
    let conditions = node["status"]["conditions"].as_array_mut().unwrap();
    conditions.extend(ours.iter().map(|[kind, status, time]| {
        json!({"type": kind, "status": status, names::LAST_TRANSITION_TIME: time, names::LAST_HEARTBEAT_TIME: time})
    }));
    conditions.push(json!({"type": "KernelDeadlock", "status": "False"}));
    node
}

const SINCE: &str = "2026-11-01T00:00:00Z";

/// Writes of a client that replaces the list of conditions, seen by a replica with a report that brakes CPU or not.
#[rstest]
#[case::without_ours(|_: &Value| json!([]))]
#[case::a_stale_copy(|_: &Value| json!([{"type": names::BRAKED, "status": "Unknown", names::LAST_TRANSITION_TIME: "2026-10-01T00:00:00Z"}]))]
#[case::a_forged_time(|ours: &Value| {
    let mut forged = ours.clone();
    forged[names::LAST_TRANSITION_TIME] = json!("2020-01-01T00:00:00Z");
    json!([forged])
})]
fn conditions_keep_their_time_if_a_client_replaces_the_list(#[case] sent: fn(&Value) -> Value) {
    for (brake, status) in [(Brake::Stop, "True"), (Brake::Off, "False")] {
        let ours = [names::BRAKED, status, SINCE];
        let old = with_conditions(amplified(1, "4800m", 120), &[ours]);
        let cluster = reported(&old);
        let mut hint = published(3, 110);
        (hint.resources.cpu.capacity, hint.resources.cpu.brake) = (4000, brake);
        cluster.hints.offer(hint, cluster.now());
        let (_, new) = written(cluster, "somebody", &old, |new| {
            let conditions = new["status"]["conditions"].as_array_mut().unwrap();
            let sent = sent(&conditions.remove(1));
            conditions.extend(sent.as_array().unwrap().clone());
        });
        assert_eq!(our_conditions(&new), [ours], "{brake:?}");
    }
}

#[test]
fn a_removed_condition_returns_to_its_position() {
    let ours = [names::BRAKED, "False", SINCE];
    let old = with_conditions(amplified(1, "4800m", 120), &[ours]);
    let (_, new) = written(reported(&old), "somebody", &old, |new| {
        new["status"]["conditions"].as_array_mut().unwrap().remove(1);
    });
    let kinds = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().unwrap().clone();
        conditions
            .into_iter()
            .map(|condition| condition["type"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(&new), kinds(&old));
}

/// A replica that cannot decide a condition keeps the stored one: it has no stream of the agent, cannot read the hint,
/// or knows no policy yet.
#[test]
fn conditions_that_a_replica_cannot_decide_are_kept() {
    let ours = [
        [names::BRAKED, "False", SINCE],
        [names::CLAMPED, "True", SINCE],
        [names::RATIO_OWNER_CONFLICT, "False", SINCE],
    ];
    let replaced = |cluster: Cluster, old: &Value| {
        let (_, new) = written(cluster, "somebody", old, |new| {
            new["status"]["conditions"].as_array_mut().unwrap().truncate(1);
        });
        let found = our_conditions(&new).into_iter();
        found
            .map(|members| members.map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let old = with_conditions(amplified(1, "4800m", 120), &ours);
    assert_eq!(
        replaced(cluster([old.clone()], []), &old),
        ours,
        "without a stream"
    );
    let mut later = old.clone();
    later["metadata"]["annotations"][names::HINT] = json!(r#"{"v":2,"uid":"u1"}"#);
    assert_eq!(
        replaced(cluster([later.clone()], []), &later),
        ours,
        "of a later layout"
    );
    let unknown = Cluster::new(
        settings(serde_json::from_value(json!({"mode": "auto"})).unwrap()),
        Arc::new(Clock::uninterrupted()),
    );
    assert_eq!(replaced(unknown, &old), ours, "without a policy");
    let mut off = old;
    off["metadata"]["annotations"][names::MODE] = json!("off");
    assert_eq!(replaced(reported(&off), &off), [[""; 3]; 0], "in mode off");
}
