//! Bursts of pods by controllers, and pods that a lost node keeps: a quota with room for 50 pods gets exactly 50.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::time::Duration;

use e2e::{caller_certificate, stand::until};
use futures::{StreamExt as _, stream};
use headroom_domain::names;
use headroom_testbed::cluster::ClusterOptions;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use tokio::time::sleep;

use super::room::{CLIENTS, FREE_AGAIN, PODS, QuotaRoom, ROOM, TEAM, pod, quota_of};

/// Time after the end of its grace from which a pod does not count.
const OVERDUE: Duration = Duration::from_secs(30);

/// Lets a ReplicaSet create 200 pods in a quota with room for 50.
async fn fill_by_replica_set(room: &QuotaRoom, run: usize) {
    let labels = json!({"app": "burst", names::QUOTA_NAME: quota_of(run)});
    let spec = pod("", run, "1", None).spec;
    let set = json!({
        "metadata": {"name": "burst"},
        "spec": {
            "replicas": PODS, "selector": {"matchLabels": {"app": "burst"}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    let sets: Api<ReplicaSet> = Api::namespaced(room.stand.client.clone(), TEAM);
    let set: ReplicaSet = serde_json::from_value(set).expect("a ReplicaSet");
    let created = sets.create(&PostParams::default(), &set).await;
    created.expect("create the ReplicaSet");
    until("the quota is full", async || room.stored(run).await >= ROOM).await;
    // Admissions that were not stored have ended, and the controller goes on.
    sleep(FREE_AGAIN + Duration::from_secs(1)).await;
    assert_eq!(room.stored(run).await, ROOM, "pods of a ReplicaSet");
}

/// Creates 200 pods that name one owner, which is no controller of pods. Failed calls are repeated, as controllers do.
async fn fill_by_forged_owner(room: &QuotaRoom, run: usize) {
    let maps: Api<ConfigMap> = Api::namespaced(room.stand.client.clone(), TEAM);
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "owner"}})).expect("a ConfigMap");
    let owner = maps.create(&PostParams::default(), &map).await;
    let owner = owner.expect("create the owner").uid().expect("a UID");
    let created = stream::iter(0..PODS).for_each_concurrent(CLIENTS, async |number| {
        let mut pod = pod(&format!("forged-{number}"), run, "1", None);
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner, "controller": true}]);
        pod.metadata.owner_references = serde_json::from_value(owner).expect("an owner");
        until("the pod is created or refused", async || {
            match room.pods.create(&PostParams::default(), &pod).await {
                Ok(_) => true,
                Err(error) => {
                    let text = error.to_string();
                    let is_ahead = text.contains("were admitted and are not stored yet");
                    assert!(is_ahead || text.contains("exceeded quota: "), "{text}");
                    !is_ahead
                }
            }
        })
        .await;
    });
    created.await;
    assert_eq!(room.stored(run).await, ROOM, "pods with a forged owner");
}

fn with_controllers() -> ClusterOptions {
    ClusterOptions {
        has_controllers: true,
        ..ClusterOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_pods_of_one_controller_fill_a_quota_exactly_for_any_caller() {
    let room = QuotaRoom::start_with(1, with_controllers(), &[]).await;
    fill_by_replica_set(&room, 0).await;
    fill_by_forged_owner(&room, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_pods_of_one_controller_fill_a_quota_exactly_for_a_verified_caller() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ClusterOptions {
        apiserver_flags: caller_certificate::create(folder.path()).apiserver_flags,
        ..with_controllers()
    };
    let room = QuotaRoom::start_with(1, options, &caller_certificate::flags(folder.path())).await;
    fill_by_replica_set(&room, 0).await;
    fill_by_forged_owner(&room, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bursts_are_limited_also_when_the_annotation_counts() {
    let room = QuotaRoom::start_with(
        1,
        ClusterOptions::default(),
        &["--switches=QuotaCountsPods=false".to_owned()],
    )
    .await;
    room.fill(0, "p", None).await;
    assert_eq!(room.stored(0).await, ROOM);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_lost_node_keeps_leave_their_quota_to_others() {
    let room = QuotaRoom::start(1).await;
    let run = 0;
    for number in 0..ROOM {
        let mut pod = pod(&format!("lost-{number}"), run, "1", None);
        if let Some(spec) = &mut pod.spec {
            spec.node_name = Some("lost".to_owned());
        }
        let created = room.pods.create(&PostParams::default(), &pod).await;
        created.expect("create a pod of the lost node");
    }
    let new = pod("new", run, "1", None);
    assert!(room.refuses(&new).await, "the quota is full");
    let ends = DeleteParams::default().grace_period(1);
    let all = ListParams::default();
    let deleted = room.pods.delete_collection(&ends, &all).await;
    deleted.expect("delete the pods");
    let kept: Vec<Pod> = room.pods.list(&all).await.expect("pods").items;
    assert!(kept.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()));
    assert_eq!(kept.len(), ROOM, "no kubelet ends them");
    assert!(room.refuses(&new).await, "they may still run");
    sleep(OVERDUE + Duration::from_secs(2)).await;
    room.fill(run, "new", None).await;
    assert_eq!(room.stored(run).await, 2 * ROOM);
}
