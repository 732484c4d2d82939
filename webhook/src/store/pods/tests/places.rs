//! Tests of places: who leaves one, who uses it, and what an outage or a restart makes of them.

use headroom_domain::capacity::{
    PlaceSums,
    places::{LONGEST_OWNER, PlaceKind},
};
use rstest::rstest;

use super::*;

/// A running pod of a controller of that kind and name, with a reservation of `cpu`.
fn owned(uid: &str, version: u64, cpu: &str, kind: &str, name: &str) -> WatchedPod {
    changed(uid, version, cpu, |pod| own(pod, cpu, kind, name))
}

fn own(pod: &mut Value, cpu: &str, kind: &str, name: &str) {
    pod["metadata"]["namespace"] = "team".into();
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "o", "controller": true}]);
    pod["status"]["containerStatuses"] =
        json!([{"name": "a", "allocatedResources": {"cpu": cpu, "memory": "1Ki"}}]);
}

/// A pod of a controller that is bound and waits for its kubelet.
fn bound(uid: &str, version: u64, cpu: &str, kind: &str, name: &str) -> WatchedPod {
    changed(uid, version, cpu, |pod| {
        own(pod, cpu, kind, name);
        pod["status"] = json!({"phase": "Pending"});
    })
}

fn open(pods: &Pods) -> PlaceSums {
    let stored = PerResource {
        cpu: Some(10_000),
        memory: Some(1 << 30),
    };
    let held = pods.pod_demand("n1", stored, true).expect("pods are known");
    held.cpu.places
}

fn others(others: u64) -> PlaceSums {
    PlaceSums {
        others,
        ..PlaceSums::default()
    }
}

fn synced() -> Pods {
    let pods = pods();
    listed(&pods, []);
    pods
}

#[rstest]
#[case::daemon_set("DaemonSet", |_: &mut Value| {}, PlaceKind::DaemonSet)]
#[case::deployment("ReplicaSet", |_: &mut Value| {}, PlaceKind::Other)]
#[case::stateful_set("StatefulSet", |_: &mut Value| {}, PlaceKind::Other)]
#[case::local_volume("StatefulSet", |pod: &mut Value| {
    pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "v-0"}}]);
}, PlaceKind::Tied)]
#[case::host_name("ReplicaSet", |pod: &mut Value| {
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n1"});
}, PlaceKind::Tied)]
#[case::affinity("ReplicaSet", |pod: &mut Value| {
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]});
    let selector = json!({"nodeSelectorTerms": [term]});
    pod["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}});
}, PlaceKind::Tied)]
#[case::affinity_to_two("ReplicaSet", |pod: &mut Value| {
    let expression = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]});
    let selector = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    pod["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}});
}, PlaceKind::Other)]
#[case::static_pod("Node", |_: &mut Value| {}, PlaceKind::Tied)]
fn a_pod_of_a_controller_leaves_a_place_of_its_kind(
    #[case] owner: &str,
    #[case] change: fn(&mut Value),
    #[case] kind: PlaceKind,
) {
    let pods = synced();
    let pod = changed("a", 5, "400m", |pod| {
        own(pod, "400m", owner, "x");
        change(pod);
    });
    pods.apply(pod.clone());
    assert_eq!(open(&pods), PlaceSums::default());
    pods.delete(pod);
    assert_eq!(open(&pods).get(kind), 400);
    assert_eq!(open(&pods).total(), 400);
}

#[test]
fn a_pod_that_ends_leaves_a_place_and_its_mark_does_not() {
    let pods = synced();
    pods.apply(owned("a", 5, "400m", "ReplicaSet", "x"));
    pods.apply(changed("a", 6, "400m", |pod| {
        own(pod, "400m", "ReplicaSet", "x");
        pod["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
    }));
    assert_eq!(open(&pods), PlaceSums::default());
    pods.apply(changed("a", 7, "400m", |pod| {
        own(pod, "400m", "ReplicaSet", "x");
        pod["status"]["phase"] = "Succeeded".into();
    }));
    assert_eq!(open(&pods), others(400));
    pods.delete(owned("a", 8, "400m", "ReplicaSet", "x"));
    assert_eq!(open(&pods), others(400), "once");
}

/// Every user who may create pods may bind pods of any size to a node, and forge their controllers.
#[test]
fn a_pod_that_no_kubelet_accepted_leaves_no_place() {
    let pods = synced();
    for pod in [
        bound("a", 5, "4", "DaemonSet", "x"),
        bound("b", 6, "4", "ReplicaSet", "y"),
        pod("c", 7, "4"),
    ] {
        pods.apply(pod.clone());
        pods.delete(pod);
    }
    assert_eq!(open(&pods), PlaceSums::default());
}

#[test]
fn a_bare_pod_leaves_no_place() {
    let pods = synced();
    let bare = running("a", 5, "400m", "400m");
    pods.apply(bare.clone());
    pods.delete(bare);
    assert_eq!(open(&pods), PlaceSums::default());
}

/// Every user who may resize a pod may ask for more than its kubelet has.
#[test]
fn a_place_has_at_most_what_the_kubelet_had_set_aside() {
    let pods = synced();
    let resized = changed("a", 5, "9", |pod| own(pod, "400m", "ReplicaSet", "x"));
    pods.apply(resized.clone());
    pods.delete(resized);
    assert_eq!(open(&pods), others(400));
}

#[test]
fn a_waiting_pod_uses_the_place_and_gives_it_back_unless_it_is_accepted() {
    let pods = synced();
    let before = owned("a", 5, "400m", "ReplicaSet", "x");
    pods.apply(before.clone());
    pods.delete(before);
    pods.apply(bound("b", 7, "300m", "ReplicaSet", "x"));
    assert_eq!(open(&pods), others(100));
    pods.delete(bound("b", 8, "300m", "ReplicaSet", "x"));
    assert_eq!(open(&pods), others(400), "its kubelet refused it");
    pods.apply(bound("c", 9, "20", "ReplicaSet", "x"));
    assert_eq!(open(&pods), others(400), "it does not fit");
    pods.apply(bound("d", 10, "300m", "ReplicaSet", "x"));
    pods.apply(owned("d", 11, "300m", "ReplicaSet", "x"));
    assert_eq!(open(&pods), others(100));
    pods.delete(owned("d", 12, "300m", "ReplicaSet", "x"));
    assert_eq!(open(&pods), others(400), "what is left, and its own");
}

#[test]
fn a_pod_that_was_bound_before_uses_no_place() {
    let pods = synced();
    let before = owned("a", 5, "400m", "DaemonSet", "x");
    pods.apply(before.clone());
    pods.apply(bound("b", 6, "300m", "ReplicaSet", "y"));
    pods.delete(before);
    assert_eq!(open(&pods).total(), 400);
    pods.apply(owned("b", 8, "300m", "ReplicaSet", "y"));
    assert_eq!(open(&pods).total(), 400);
}

#[test]
fn departures_and_arrivals_during_an_outage_count() {
    let pods = synced();
    pods.apply(owned("a", 5, "400m", "ReplicaSet", "x"));
    pods.apply(owned("b", 6, "300m", "ReplicaSet", "y"));
    pods.set_known(false);
    listed(
        &pods,
        [
            owned("b", 6, "300m", "ReplicaSet", "y"),
            owned("c", 9, "100m", "ReplicaSet", "z"),
        ],
    );
    assert_eq!(open(&pods), others(300));
    listed(&pods, []);
    assert_eq!(open(&pods), others(700), "the node has no pods any more");
    listed(&pods, []);
    assert_eq!(open(&pods), others(700));
}

#[test]
fn a_replica_that_has_just_started_uses_the_record() {
    let mut recorded = PerResource::<PlaceSums>::default();
    recorded.cpu.daemon_sets = 400;
    for is_record_first in [true, false] {
        let pods = pods();
        if is_record_first {
            pods.inherit_places("n1", &recorded);
        }
        listed(&pods, [owned("a", 5, "1", "ReplicaSet", "x")]);
        if !is_record_first {
            pods.inherit_places("n1", &recorded);
        }
        assert_eq!(open(&pods), recorded.cpu, "pods of before use nothing of it");
        assert!(pods.place_closes_in("n1").is_some());
        pods.apply(owned("b", 6, "300m", "DaemonSet", "y"));
        assert_eq!(open(&pods).total(), 100);
    }
}

/// Every user who may patch pods may change labels, and the agent reports only every 15 s.
#[test]
fn a_relabelled_pod_makes_no_hint_older() {
    let pods = synced();
    pods.apply(owned("a", 5, "400m", "ReplicaSet", "x"));
    pods.apply(owned("a", 6, "400m", "ReplicaSet", "y"));
    assert_eq!(pods.changed_at("n1"), 5);
    let (_, bound) = pods.on("n1").unwrap();
    let expected = owned("a", 6, "400m", "ReplicaSet", "y")
        .controller
        .unwrap()
        .workload;
    assert_eq!(
        bound.pods["a"].owner.workload(),
        Some(expected),
        "the next directive has it"
    );
}

/// The API server limits neither kind nor name in an owner reference.
#[test]
fn a_megabyte_of_an_owner_takes_little_memory() {
    let pods = synced();
    let kind = "K".repeat(1 << 20);
    let pod = owned("a", 5, "400m", &kind, "x");
    pods.apply(pod.clone());
    pods.delete(pod);
    let longest = pods.with_node("n1", |bound| {
        let open = bound.places.open_at(Duration::ZERO);
        open.map(|place| place.owner.len()).max()
    });
    assert_eq!(longest, Some(LONGEST_OWNER));
}

/// The agent knows of the departure.
#[test]
fn a_list_makes_no_hint_of_a_node_with_places_alone_older() {
    let pods = synced();
    let pod = owned("a", 5, "400m", "ReplicaSet", "x");
    pods.apply(pod.clone());
    pods.delete(owned("a", 6, "400m", "ReplicaSet", "x"));
    pods.apply(on("other", 9, "n2"));
    listed(&pods, [on("other", 9, "n2")]);
    assert_eq!((open(&pods), pods.changed_at("n1")), (others(400), 6));
}

/// The hashes of a pod, after a change.
fn workload(change: impl FnOnce(&mut Value)) -> headroom_domain::workload::Workload {
    let pod = changed("a", 5, "400m", |pod| {
        own(pod, "400m", "ReplicaSet", "web-7d4f");
        pod["metadata"]["labels"] = json!({"pod-template-hash": "7d4f"});
        pod["spec"]["containers"][0]["image"] = "web:1".into();
        change(pod);
    });
    pod.controller.unwrap().workload
}

#[rstest]
#[case::revision(|pod: &mut Value| {
    pod["metadata"]["ownerReferences"][0]["name"] = "web-99".into();
    pod["metadata"]["labels"] = json!({"pod-template-hash": "99"});
}, true)]
#[case::rollouts(|pod: &mut Value| {
    pod["metadata"]["ownerReferences"][0]["name"] = "web-99".into();
    pod["metadata"]["labels"] = json!({"rollouts-pod-template-hash": "99"});
}, true)]
#[case::group_version(|pod: &mut Value| pod["metadata"]["ownerReferences"][0]["apiVersion"] = "apps/v2".into(), true)]
#[case::group(|pod: &mut Value| pod["metadata"]["ownerReferences"][0]["apiVersion"] = "apps.kruise.io/v1".into(), false)]
#[case::namespace(|pod: &mut Value| pod["metadata"]["namespace"] = "other".into(), false)]
#[case::kind(|pod: &mut Value| pod["metadata"]["ownerReferences"][0]["kind"] = "StatefulSet".into(), false)]
#[case::no_label(|pod: &mut Value| pod["metadata"]["labels"] = json!({}), false)]
fn a_controller_is_the_same_over_its_revisions(#[case] change: fn(&mut Value), #[case] is_same: bool) {
    assert_eq!(
        workload(change).controller == workload(|_| {}).controller,
        is_same
    );
}

#[rstest]
#[case::image(|pod: &mut Value| pod["spec"]["containers"][0]["image"] = "web:2".into(), false)]
#[case::name(|pod: &mut Value| pod["spec"]["containers"][0]["name"] = "b".into(), false)]
#[case::command(|pod: &mut Value| pod["spec"]["containers"][0]["command"] = json!(["x"]), false)]
#[case::arguments(|pod: &mut Value| pod["spec"]["containers"][0]["args"] = json!(["x"]), false)]
#[case::environment(|pod: &mut Value| pod["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]), false)]
#[case::environment_from(|pod: &mut Value| {
    pod["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "c"}}]);
}, false)]
#[case::config_map(|pod: &mut Value| pod["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "c"}}]), false)]
#[case::secret(|pod: &mut Value| pod["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "c"}}]), false)]
#[case::projected(|pod: &mut Value| {
    pod["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": [{"secret": {"name": "c"}}]}}]);
}, false)]
#[case::requests(|pod: &mut Value| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2".into(), false)]
#[case::init_container(|pod: &mut Value| pod["spec"]["initContainers"] = json!([{"name": "a", "image": "web:1"}]), false)]
#[case::restarted(|pod: &mut Value| pod["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "1"}), true)]
#[case::volume_name(|pod: &mut Value| {
    pod["spec"]["volumes"] = json!([{"name": "data-x7", "persistentVolumeClaim": {"claimName": "c-0"}}]);
}, true)]
#[case::node(|pod: &mut Value| pod["spec"]["nodeName"] = "n2".into(), true)]
fn a_version_is_what_a_pod_runs(#[case] change: fn(&mut Value), #[case] is_same: bool) {
    assert_eq!(workload(change).version == workload(|_| {}).version, is_same);
}

#[rstest]
#[case::time_of_a_cron_job("backup-29012345", "backup-29012346", true)]
#[case::plain_names("import-a", "import-b", false)]
#[case::short_numbers("import-1", "import-2", false)]
fn jobs_of_a_cron_job_are_one_controller(#[case] one: &str, #[case] other: &str, #[case] is_same: bool) {
    let of = |name| {
        owned("a", 5, "1", "Job", name)
            .controller
            .unwrap()
            .workload
            .controller
    };
    assert_eq!(of(one) == of(other), is_same);
}
