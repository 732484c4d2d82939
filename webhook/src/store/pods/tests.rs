//! Tests of the pod store: bound pods and the amounts they hold, through lists, events and outages.

use headroom_domain::names::MIRROR;
use serde_json::{Value, json};

use super::{bound::BoundPod, *};

fn pods() -> Pods {
    Pods::new(Arc::default(), Arc::default())
}

/// A pod of `n1` that asks for `cpu`, as of that resource version.
fn pod(uid: &str, version: u64, cpu: &str) -> WatchedPod {
    changed(uid, version, cpu, |_| {})
}

fn changed(uid: &str, version: u64, cpu: &str, change: impl FnOnce(&mut Value)) -> WatchedPod {
    let mut pod = json!({
        "metadata": {"name": uid, "uid": uid, "resourceVersion": version.to_string()},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "a", "resources": {"requests": {"cpu": cpu, "memory": "1Ki"}}}],
        },
        "status": {"phase": "Running", "qosClass": "Burstable"},
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

/// A pod of that node.
fn on(uid: &str, version: u64, node: &str) -> WatchedPod {
    changed(uid, version, "1", |pod| pod["spec"]["nodeName"] = node.into())
}

fn listed(pods: &Pods, objects: impl IntoIterator<Item = WatchedPod>) {
    let mut listing = PodListing::default();
    for object in objects {
        Pods::list(&mut listing, object);
    }
    pods.replace(listing);
}

fn cpu(pods: &Pods) -> Option<u64> {
    pods.on("n1").map(|(_, bound)| bound.sum().cpu)
}

/// Demand of admitted pods, and of all pods that fit, in CPU for this stored value.
fn pod_demand(pods: &Pods, stored: u64) -> (u64, u64) {
    let stored = PerResource {
        cpu: Some(stored),
        memory: Some(1 << 30),
    };
    let held = pods.pod_demand("n1", stored, true).expect("pods are known");
    (held.cpu.admitted, held.cpu.fit)
}

/// Pending, and nothing written by its kubelet.
fn waiting(uid: &str, version: u64, cpu: &str, created: &str) -> WatchedPod {
    changed(uid, version, cpu, |pod| {
        pod["status"] = json!({"phase": "Pending"});
        pod["metadata"]["creationTimestamp"] = created.into();
    })
}

/// Running pod with this reservation.
fn running(uid: &str, version: u64, cpu: &str, allocated: &str) -> WatchedPod {
    changed(uid, version, cpu, |pod| {
        pod["status"]["containerStatuses"] =
            json!([{"name": "a", "allocatedResources": {"cpu": allocated, "memory": "1Ki"}}]);
    })
}

/// A mirror pod of `n1` that claims to run under `claim`.
fn mirror(uid: &str, version: u64, static_uid: &str) -> WatchedPod {
    changed(uid, version, "1", |pod| {
        pod["metadata"]["name"] = format!("{uid}-n1").into();
        pod["metadata"]["annotations"] = json!({MIRROR: static_uid});
    })
}

fn cgroups(pods: &Pods) -> Vec<String> {
    let (_, bound) = pods.on("n1").unwrap();
    bound
        .pods
        .keys()
        .map(|uid| bound.cgroup(uid).to_owned())
        .collect()
}

#[test]
fn nothing_is_said_before_all_pods_are_known() {
    let pods = pods();
    pods.apply(pod("a", 5, "1"));
    assert_eq!((cpu(&pods), pods.has_synced()), (None, false));
    listed(&pods, []);
    assert_eq!((cpu(&pods), pods.has_synced()), (Some(0), true));
}

#[test]
fn what_is_bound_and_has_not_ended_counts() {
    let pods = pods();
    let unbound = changed("u", 3, "8", |pod| pod["spec"]["nodeName"] = Value::Null);
    let elsewhere = changed("e", 4, "8", |pod| pod["spec"]["nodeName"] = "n2".into());
    let failed = changed("f", 5, "8", |pod| pod["status"]["phase"] = "Failed".into());
    let pending = changed("p", 6, "1", |pod| pod["status"]["phase"] = "Pending".into());
    let leaving = changed("l", 7, "1", |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
    });
    listed(
        &pods,
        [
            pod("a", 1, "1"),
            pod("b", 2, "500m"),
            unbound,
            elsewhere,
            failed,
            pending,
            leaving,
        ],
    );
    assert_eq!(
        pods.on("n1").map(|(_, bound)| bound.sum()),
        Some(PerResource {
            cpu: 3500,
            memory: 4 << 10
        })
    );
    assert_eq!(pods.generation(), 7);
    let (_, bound) = pods.on("n1").unwrap();
    assert!(bound.pods["l"].is_deleting && !bound.pods["p"].is_deleting);
}

#[test]
fn events_move_sum_and_generation() {
    let pods = pods();
    listed(&pods, [pod("a", 1, "1")]);
    pods.apply(pod("b", 2, "2"));
    assert_eq!((cpu(&pods), pods.changed_at("n1")), (Some(3000), 2));
    pods.apply(changed("b", 3, "2", |pod| {
        pod["metadata"]["labels"] = json!({"x": "y"});
    }));
    assert_eq!((pods.generation(), pods.changed_at("n1")), (3, 2));
    pods.apply(changed("b", 4, "2", |pod| {
        pod["status"]["phase"] = "Succeeded".into();
    }));
    assert_eq!((cpu(&pods), pods.changed_at("n1")), (Some(1000), 4));
    pods.delete(pod("a", 5, "1"));
    assert_eq!((cpu(&pods), pods.changed_at("n1")), (Some(0), 5));
}

#[test]
fn nodes_that_do_not_exist_take_no_memory_once_their_pods_are_gone() {
    let pods = pods();
    listed(&pods, [pod("a", 1, "1"), on("z", 1, "n2")]);
    pods.delete(on("z", 2, "n2"));
    let most = u64::try_from(MOST_VACANT).unwrap();
    for version in 3..2 * most {
        let node = format!("no-such-node-{version}");
        pods.apply(on("b", version, &node));
        pods.delete(on("b", version, &node));
        let kept = pods.read().listing.nodes.len();
        assert!(kept <= MOST_VACANT + 1, "{kept} nodes after {version}");
    }
    assert_eq!((cpu(&pods), pods.changed_at("n1")), (Some(1000), 1));
    // The deleted pod still changes the directive.
    assert!(pods.changed_at("n2") >= 2);
    pods.apply(on("z", 3 * most, "n2"));
    assert_eq!(pods.changed_at("n2"), 3 * most);
}

#[test]
fn a_list_after_an_outage_forgets_no_change_of_a_node_without_pods() {
    let pods = pods();
    listed(&pods, [on("z", 1, "n2")]);
    pods.delete(on("z", 2, "n2"));
    listed(&pods, [pod("a", 3, "1")]);
    assert_eq!((pods.changed_at("n1"), pods.changed_at("n2")), (3, 2));
}

#[test]
fn a_list_after_an_outage_replaces_everything_and_tells_whom_it_concerns() {
    let changes = Arc::new(Changes::default());
    let pods = Pods::new(Arc::clone(&changes), Arc::default());
    listed(&pods, [pod("a", 1, "1"), pod("b", 2, "1"), on("c", 3, "n2")]);
    let (followed, unchanged) = (changes.follow("n1"), changes.follow("n2"));
    listed(&pods, [pod("a", 1, "1"), on("c", 3, "n2")]);
    assert_eq!(
        (cpu(&pods), pods.generation(), pods.changed_at("n1")),
        (Some(1000), 3, 3)
    );
    assert!(followed.has_changed().unwrap() && !unchanged.has_changed().unwrap());
    listed(&pods, []);
    assert_eq!(cpu(&pods), Some(0));
    assert!(unchanged.has_changed().unwrap());
}

#[test]
fn deletion_is_told_at_once_and_heartbeats_are_not_told() {
    let changes = Arc::new(Changes::default());
    let pods = Pods::new(Arc::clone(&changes), Arc::default());
    let mut followed = changes.follow("n1");
    let mut urgent = || {
        followed
            .has_changed()
            .unwrap()
            .then(|| followed.borrow_and_update().urgent)
    };
    pods.apply(pod("a", 1, "1"));
    assert_eq!(urgent(), Some(0));
    pods.apply(pod("a", 2, "1"));
    assert_eq!(urgent(), None);
    let leaving = |version| {
        changed("a", version, "1", |pod| {
            pod["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
        })
    };
    pods.apply(leaving(3));
    assert_eq!(urgent(), Some(1));
    pods.delete(leaving(4));
    assert_eq!(urgent(), Some(2));
}

#[test]
fn a_mirror_pod_goes_by_the_uid_of_its_cgroup() {
    let pods = pods();
    listed(&pods, [mirror("api-uid", 1, "hash")]);
    assert_eq!(cgroups(&pods), ["hash"]);
    let (_, bound) = pods.on("n1").unwrap();
    assert!(bound.by_cgroup("hash").is_some() && bound.by_cgroup("api-uid").is_none());
    pods.delete(mirror("api-uid", 2, "hash"));
    assert_eq!(cpu(&pods), Some(0));
}

#[test]
fn forged_mirror_pod_changes_neither_sums_nor_trust() {
    let pods = pods();
    listed(&pods, [running("victim", 1, "10", "10")]);
    pods.apply(mirror("thief", 2, "victim"));
    assert_eq!(cgroups(&pods), ["thief", "victim"]);
    assert_eq!(pod_demand(&pods, 20_000), (10_000, 11_000));
    pods.delete(mirror("thief", 3, "victim"));
    assert_eq!(pod_demand(&pods, 20_000), (10_000, 10_000));
    let (_, bound) = pods.on("n1").unwrap();
    assert_eq!(
        bound.by_cgroup("victim").map(|pod| pod.requests.cpu),
        Some(10_000)
    );
}

#[test]
fn two_pods_with_the_same_claim_are_both_ignored() {
    let pods = pods();
    listed(&pods, [mirror("a", 1, "hash"), mirror("b", 2, "hash")]);
    assert_eq!(cgroups(&pods), ["a", "b"]);
    assert_eq!(pods.on("n1").unwrap().1.by_cgroup("hash"), None);
    pods.delete(mirror("b", 3, "hash"));
    assert_eq!(cgroups(&pods), ["hash"]);
}

#[test]
fn a_claim_takes_the_name_of_a_static_pod_and_a_kubelet_that_let_it_in() {
    let pods = pods();
    let named_otherwise = changed("a", 1, "1", |pod| {
        pod["metadata"]["annotations"] = json!({MIRROR: "hash"});
    });
    let not_let_in = changed("b", 2, "1", |pod| {
        pod["metadata"]["name"] = "b-n1".into();
        pod["metadata"]["annotations"] = json!({MIRROR: "other"});
        pod["status"] = json!({"phase": "Pending"});
    });
    listed(&pods, [named_otherwise, not_let_in]);
    assert_eq!(cgroups(&pods), ["a", "b"]);
}

#[test]
fn pods_admitted_by_the_kubelet_keep_their_reported_allocation() {
    let pods = pods();
    // The second asks for more than was set aside for it: a resize that the kubelet puts off.
    listed(&pods, [running("a", 1, "1", "1"), running("b", 2, "900", "2")]);
    assert_eq!(pod_demand(&pods, 8000), (3000, 3000));
    // A pod that its kubelet has admitted without reporting a reservation may run.
    pods.apply(pod("c", 3, "1"));
    assert_eq!(pod_demand(&pods, 8000), (3000, 4000));
    let older = pods.pod_demand("n1", PerResource::default(), false).unwrap();
    assert_eq!(older.cpu.admitted, 4000, "an older kubelet never says");
}

#[test]
fn a_written_status_holds_the_stored_value_and_raises_nothing_above_the_spec() {
    let pods = pods();
    // A kubelet has reserved more than the spec requests only until a smaller resize is done.
    listed(&pods, [running("a", 1, "1", "1000")]);
    assert_eq!(pod_demand(&pods, 8000), (1000, 1_000_000));
    let older = pods.pod_demand("n1", PerResource::default(), false).unwrap();
    assert_eq!(older.cpu.admitted, 1000);
}

#[test]
fn waiting_pods_fit_by_age_within_stored_allocatable() {
    let pods = pods();
    listed(
        &pods,
        [
            running("a", 1, "1", "1"),
            waiting("late", 2, "2", "2026-11-20T10:00:02Z"),
            waiting("early", 3, "3", "2026-11-20T10:00:00Z"),
            waiting("huge", 4, "1000", "2026-11-20T10:00:01Z"),
        ],
    );
    assert_eq!(pod_demand(&pods, 6000), (1000, 6000));
    assert_eq!(pod_demand(&pods, 5999), (1000, 4000));
    assert_eq!(pod_demand(&pods, 3999), (1000, 3000));
    assert_eq!(pod_demand(&pods, 1_100_000), (1000, 1_006_000));
    let unstored = pods.pod_demand("n1", PerResource::default(), true).unwrap();
    assert_eq!((unstored.cpu.admitted, unstored.cpu.fit), (1000, 1000));
}

#[test]
fn both_resources_have_to_fit() {
    let pods = pods();
    listed(&pods, [waiting("a", 1, "1", "2026-11-20T10:00:00Z")]);
    let stored = |memory| PerResource {
        cpu: Some(8000),
        memory: Some(memory),
    };
    let fit = |memory| pods.pod_demand("n1", stored(memory), true).unwrap().cpu.fit;
    assert_eq!((fit(1024), fit(1023)), (1000, 0));
}

#[test]
fn being_let_in_is_told_and_makes_no_hint_older() {
    let changes = Arc::new(Changes::default());
    let pods = Pods::new(Arc::clone(&changes), Arc::default());
    let mut followed = changes.follow("n1");
    pods.apply(waiting("a", 1, "1", "2026-11-20T10:00:00Z"));
    followed.mark_unchanged();
    pods.apply(changed("a", 2, "1", |pod| {
        pod["metadata"]["creationTimestamp"] = "2026-11-20T10:00:00Z".into();
        pod["status"] = json!({"phase": "Pending", "containerStatuses": [{"name": "a"}]});
    }));
    assert!(followed.has_changed().unwrap());
    assert_eq!(pods.changed_at("n1"), 1);
}

#[test]
fn a_pod_takes_little_memory() {
    // A map's leaf holds up to 11 entries and is at least half full; a UID's text is 36 bytes in a 48 byte block.
    let entry = size_of::<(Box<str>, BoundPod)>();
    // A third of it tells whose successor may take its place.
    assert!(2 * entry + 48 <= 272, "{entry}");
}

mod places;

/// A pod of that node whose requests cannot be read.
fn unreadable(uid: &str, version: u64, node: &str) -> WatchedPod {
    let pod = json!({
        "metadata": {"name": uid, "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"nodeName": node},
    });
    serde_json::from_value(pod).unwrap()
}

#[test]
fn unreadable_pod_counts_as_last_read() {
    let pods = pods();
    listed(&pods, [running("a", 1, "4", "4"), running("b", 2, "1", "1")]);
    pods.apply_unreadable(unreadable("a", 3, "n1"));
    assert_eq!(pod_demand(&pods, 8_000), (5_000, 5_000));
    // So it does after an outage in which it became unreadable.
    let mut listing = PodListing::default();
    Pods::list(&mut listing, running("b", 2, "1", "1"));
    pods.list_unreadable(&mut listing, unreadable("a", 3, "n1"));
    pods.replace(listing);
    assert_eq!(pod_demand(&pods, 8_000), (5_000, 5_000));
    pods.delete(unreadable("a", 4, "n1"));
    assert_eq!(pod_demand(&pods, 8_000), (1_000, 1_000));
}

#[test]
fn pod_that_was_never_readable_makes_only_its_node_unknown() {
    let pods = pods();
    let stored = PerResource::from_fn(|_| Some(8_000));
    let is_known = |node: &str| pods.pod_demand(node, stored, true).is_some();
    let mut listing = PodListing::default();
    Pods::list(&mut listing, on("b", 1, "n2"));
    pods.list_unreadable(&mut listing, unreadable("a", 2, "n1"));
    pods.replace(listing);
    assert_eq!(
        (is_known("n1"), is_known("n2"), pods.has_synced()),
        (false, true, true)
    );
    pods.apply_unreadable(unreadable("c", 3, "n1"));
    // One of them can be read, and the other ends.
    pods.apply(on("a", 4, "n1"));
    assert!(!is_known("n1"));
    let mut ended = unreadable("c", 5, "n1");
    ended.status.phase = Some("Failed".to_owned());
    pods.apply_unreadable(ended);
    assert!(is_known("n1"));
    assert_eq!(pods.on("n1").unwrap().1.sum().cpu, 1_000);
}

#[test]
fn amount_beyond_64_bits_holds_the_node_once_admitted_and_gains_no_trust() {
    let pods = pods();
    // The kubelet's arithmetic overflows, so that it may admit the pod.
    listed(
        &pods,
        [running("a", 1, "1e64", "1e64"), running("b", 2, "1", "1")],
    );
    assert_eq!(pod_demand(&pods, 8_000), (1_000, u64::MAX));
    assert_eq!(cpu(&pods), Some(1_000));
    // Before that it changes nothing.
    listed(
        &pods,
        [
            waiting("a", 3, "1e64", "2026-11-20T10:00:00Z"),
            running("b", 2, "1", "1"),
        ],
    );
    assert_eq!(pod_demand(&pods, 8_000), (1_000, 1_000));
}

#[test]
fn exponent_beyond_32_bits_counts_as_the_kubelet_counts_it() {
    let pods = pods();
    listed(&pods, [running("a", 1, "30e4294967296", "30e4294967296")]);
    assert_eq!(pod_demand(&pods, 40_000), (30_000, 30_000));
}
