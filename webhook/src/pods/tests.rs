//! The sum of what is bound, through lists, events and outages.

use serde_json::{Value, json};

use super::*;

fn pods() -> Pods {
    Pods::new(Arc::default())
}

/// A pod of `n1` that asks for `cpu`, as of that resource version.
fn pod(uid: &str, version: u64, cpu: &str) -> Object {
    changed(uid, version, cpu, |_| {})
}

fn changed(uid: &str, version: u64, cpu: &str, change: impl FnOnce(&mut Value)) -> Object {
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

fn listed(pods: &Pods, objects: impl IntoIterator<Item = Object>) {
    let mut listing = Listing::default();
    for object in objects {
        Pods::list(&mut listing, object);
    }
    pods.replace(listing);
}

fn cpu(pods: &Pods) -> Option<u64> {
    pods.bound("n1").map(|bound| bound.cpu)
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
        pods.bound("n1"),
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
fn a_list_after_an_outage_replaces_everything_and_tells_whom_it_concerns() {
    let changes = Arc::new(Changes::default());
    let pods = Pods::new(Arc::clone(&changes));
    let other = |uid, version| changed(uid, version, "1", |pod| pod["spec"]["nodeName"] = "n2".into());
    listed(&pods, [pod("a", 1, "1"), pod("b", 2, "1"), other("c", 3)]);
    let (followed, unchanged) = (changes.follow("n1"), changes.follow("n2"));
    listed(&pods, [pod("a", 1, "1"), other("c", 3)]);
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
    let pods = Pods::new(Arc::clone(&changes));
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
    let mirror = |version| {
        changed("api-uid", version, "1", |pod| {
            pod["metadata"]["annotations"] = json!({MIRROR: "hash"});
        })
    };
    listed(&pods, [mirror(1)]);
    let (_, bound) = pods.on("n1").unwrap();
    assert_eq!(bound.pods.keys().map(|uid| &**uid).collect::<Vec<_>>(), ["hash"]);
    pods.delete(mirror(2));
    assert_eq!(cpu(&pods), Some(0));
}

#[test]
fn a_pod_takes_little_memory() {
    // A map's leaf holds up to 11 entries and is at least half full; a UID's text is 36 bytes in a 48 byte block.
    let entry = size_of::<(Box<str>, Pod)>();
    assert!(2 * entry + 48 <= 160, "{entry}");
}
