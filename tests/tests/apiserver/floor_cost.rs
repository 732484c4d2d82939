//! Test of the API server's CPU time for a heartbeat: with the policies, with the webhook calls that
//! `steady-state-skip` spares, and with neither.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use e2e::{
    policy_install,
    stand::{Stand, allocatable, annotation, count, ready},
};
use headroom_domain::names;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// Heartbeats in one measurement; each kind is measured twice.
const HEARTBEATS: u32 = 200;
/// Calls of the endpoint that the webhook has answered.
const REVIEWS: &str = r#"headroom_webhook_reviews_total{endpoint="mutate-node-status""#;
/// Maximum cost of a heartbeat, as a multiple of one without policies and webhook.
const AT_MOST: f64 = 6.0;

/// Content that makes a Node of 30 kB: 50 images of 5 names, 12 conditions, 40 annotations.
fn bulk() -> Value {
    let digest = "0123456789abcdef".repeat(4);
    let image = |image: u32| {
        let names = (0..5).map(|name| format!("registry.example.com/team/{image}/{name}@sha256:{digest}"));
        json!({"names": names.collect::<Vec<_>>(), "sizeBytes": 123_456_789})
    };
    let condition = |number: u32| {
        json!({
            "type": format!("Pressure{number}"), "status": "False", "reason": "KubeletHasEnough",
            "message": "kubelet has enough of it", "lastHeartbeatTime": "2026-01-01T12:00:00Z",
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        })
    };
    let annotations =
        (0..40).map(|number| (format!("example.com/annotation-{number}"), json!("x".repeat(60))));
    json!({
        "metadata": {"annotations": annotations.collect::<serde_json::Map<_, _>>()},
        "status": {
            "images": (0..50).map(image).collect::<Vec<_>>(),
            "conditions": (0..12).map(condition).chain([ready(0)]).collect::<Vec<_>>(),
        },
    })
}

/// Milliseconds of the API server's CPU for a heartbeat of n1's kubelet that is not stored.
async fn milliseconds(stand: &Stand, kubelet: &Api<Node>) -> f64 {
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let heartbeat = Patch::Strategic(json!({"status": {
        "allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": [ready(10)],
    }}));
    let cpu = async || stand.metrics().await.sum("process_cpu_seconds_total", &[]);
    let before = cpu().await;
    for _ in 0..HEARTBEATS {
        kubelet
            .patch_status("n1", &dry_run, &heartbeat)
            .await
            .expect("passes");
    }
    (cpu().await - before) * 1000.0 / f64::from(HEARTBEATS)
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_with_policies_costs_the_api_server_a_bounded_multiple() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.create_node("n1", "4", "8Gi").await;
    let large = stand
        .nodes()
        .patch_status("n1", &PatchParams::default(), &Patch::Merge(bulk()))
        .await;
    let size = serde_json::to_vec(&large.expect("passes")).expect("JSON").len();
    stand
        .annotate("n1", names::RATIO, r#"{"cpu":1.5,"memory":1.25}"#)
        .await;
    let client = stand.cluster.client_for_node("n1").await;
    let kubelet: Api<Node> = Api::all(client.expect("the node's client"));

    let mut plain = milliseconds(&stand, &kubelet).await;
    plain = plain.min(milliseconds(&stand, &kubelet).await);
    policy_install::install(&stand).await;
    stand.register(&webhook).await;
    stand
        .node_until("n1", "amplified", |node| {
            allocatable(node, "cpu") == "6" && annotation(node, names::MARKER).is_some()
        })
        .await;
    let unseen = count(&webhook, REVIEWS).await;
    let mut called = milliseconds(&stand, &kubelet).await;
    called = called.min(milliseconds(&stand, &kubelet).await);
    let seen = count(&webhook, REVIEWS).await;
    stand.register_skipping(&webhook).await;
    let mut skipped = milliseconds(&stand, &kubelet).await;
    skipped = skipped.min(milliseconds(&stand, &kubelet).await);
    let spared = count(&webhook, REVIEWS).await;

    println!(
        "{size} bytes, CPU per heartbeat, the lesser of two times {HEARTBEATS}: neither {plain:.2} ms, policies \
         {skipped:.2} ms, policies and webhook {called:.2} ms"
    );
    assert!(seen - unseen >= u64::from(2 * HEARTBEATS), "{unseen} {seen}");
    // The two CPU times differ by less than the noise of a busy machine, so the savings are counted in calls.
    assert!(spared - seen < u64::from(HEARTBEATS), "{seen} {spared}");
    assert!(
        called.min(skipped) < AT_MOST * plain,
        "{called} {skipped} {plain}"
    );
}
