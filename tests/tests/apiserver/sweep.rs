//! The leader's sweep on a real API server brings nodes to the amounts that the rules give, although no kubelet writes
//! their status. Also tests of a change of leader.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::time::{Duration, Instant};

use e2e::{
    scripted_agent::hint,
    stand::{AUTO, Stand, allocatable, annotation, count, ready, until},
};
use headroom_domain::{hint::NodeHint, names};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Changes annotations without a write of the status.
async fn annotate(stand: &Stand, name: &str, annotations: Value) {
    let nodes: Api<Node> = Api::all(stand.client.clone());
    let patch = json!({"metadata": {"annotations": annotations}});
    nodes
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("annotate the node");
}

/// The replica that holds the lease.
async fn leader(stand: &Stand) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(stand.client.clone(), names::NAMESPACE);
    let lease = leases.get_opt(names::LEASE).await.expect("read the lease")?;
    let holder = lease.spec?.holder_identity?;
    Some(holder.split_once('_')?.0.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_fell_to_raw_during_an_outage_is_restored_without_its_kubelet() {
    let stand = Stand::start().await;
    let mut first = stand.webhook("webhook-0", "{}").await;
    stand.register(&first).await;
    stand.create_node("n1", "4", "8Gi").await;
    annotate(&stand, "n1", json!({names::RATIO: r#"{"cpu":1.5}"#})).await;
    stand
        .node_until("n1", "amplified because of its annotation alone", |node| {
            allocatable(node, "cpu") == "6"
        })
        .await;

    first.process.signal(Signal::KILL).expect("kill the replica");
    let raw = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(20)]});
    until("a write passes by the dead replica", async || {
        let node = stand.patch_as_kubelet("n1", &raw).await.expect("passes");
        allocatable(&node, "cpu") == "4"
    })
    .await;

    let second = stand.webhook("webhook-1", "{}").await;
    stand.register(&second).await;
    let mended = stand
        .node_until("n1", "amplified again", |node| allocatable(node, "cpu") == "6")
        .await;
    assert_eq!(
        annotation(&mended, names::RAW_ALLOCATABLE),
        Some(r#"{"cpu":"4","memory":"8Gi"}"#)
    );

    // Switched off, it is raw again, and nothing of ours is left.
    annotate(&stand, "n1", json!({names::MODE: "off"})).await;
    let restored = stand
        .node_until("n1", "raw and without our marker", |node| {
            allocatable(node, "cpu") == "4" && annotation(node, names::MARKER).is_none()
        })
        .await;
    assert_eq!(annotation(&restored, names::RAW_ALLOCATABLE), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_leads_after_the_leader_stops_or_is_killed() {
    let stand = Stand::start().await;
    let mut replicas = Vec::new();
    for name in ["webhook-0", "webhook-1", "webhook-2"] {
        replicas.push(stand.webhook(name, "{}").await);
        until("there is a leader", async || {
            leader(&stand).await.as_deref() == Some("webhook-0")
        })
        .await;
    }
    // All but the last go; it answers admission throughout.
    stand.register(&replicas[2]).await;
    stand.create_node("n1", "4", "8Gi").await;

    replicas[0].process.signal(Signal::KILL).expect("kill the leader");
    until("another replica leads", async || {
        matches!(leader(&stand).await.as_deref(), Some("webhook-1" | "webhook-2"))
    })
    .await;
    annotate(&stand, "n1", json!({names::RATIO: r#"{"cpu":1.5}"#})).await;
    stand
        .node_until("n1", "amplified", |node| allocatable(node, "cpu") == "6")
        .await;

    let status = replicas[1].process.stop().expect("stop a replica");
    assert!(status.success(), "{status}");
    until("the last one leads", async || {
        leader(&stand).await.as_deref() == Some("webhook-2")
    })
    .await;
    annotate(&stand, "n1", json!({names::RATIO: r#"{"cpu":1.25}"#})).await;
    stand
        .node_until("n1", "amplified less", |node| allocatable(node, "cpu") == "5")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_writes_lowered_values_if_the_primary_cannot() {
    let stand = Stand::start().await;
    let leading = stand.webhook("webhook-0", AUTO).await;
    until("there is a leader", async || {
        leader(&stand).await.as_deref() == Some("webhook-0")
    })
    .await;
    let mut primary = stand.webhook("webhook-1", AUTO).await;
    stand.register(&leading).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let uid = node.uid().expect("a UID");
    let mut to_primary = stand.agent(&node, &primary).await;
    let mut to_leader = stand.agent(&node, &leading).await;
    let report = |seq, cents, is_primary| NodeHint {
        is_primary,
        pods_generation: u64::MAX,
        ..hint("n1", &uid, seq, cents)
    };
    to_leader.report(&report(1, 105, false)).await.expect("an answer");
    to_primary.report(&report(1, 105, true)).await.expect("an answer");
    stand
        .node_until("n1", "raised by its primary", |node| {
            allocatable(node, "cpu") == "4200m"
        })
        .await;

    primary.process.signal(Signal::STOP).expect("stop the primary");
    let asked = Instant::now();
    to_leader.report(&report(2, 100, false)).await.expect("an answer");
    stand
        .node_until("n1", "lowered by the leader", |node| {
            allocatable(node, "cpu") == "4"
        })
        .await;
    assert!(
        asked.elapsed() >= Duration::from_secs(5),
        "the primary has its time: {:?}",
        asked.elapsed()
    );
    let overdue = "headroom_webhook_sweeps_total{direction=\"overdue\",result=\"nudged\"}";
    assert_eq!(count(&leading, overdue).await, 1);
    primary.process.signal(Signal::CONT).expect("resume it");
}
