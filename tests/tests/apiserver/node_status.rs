//! Tests of writes of `nodes/status` with a kubelet's credential, through a real API server and the real webhook over
//! TLS.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use e2e::{
    admission::{Admission, review},
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, Stand, allocatable, annotation, count, ready, until},
};
use headroom_domain::{names, ratio::Cents};
use headroom_proto::v1alpha1::Verdict;
use headroom_testbed::webhook::Webhook;
use http::StatusCode;
use k8s_openapi::{ByteString, api::core::v1::Node};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tonic::Code;

/// Admission calls that a replica has answered.
const REVIEWS: &str = "headroom_webhook_reviews_total{";

/// The node of these tests: raw 4 CPUs and 8Gi.
async fn node(stand: &Stand) -> Node {
    stand.create_node("n1", "4", "8Gi").await
}

fn uid(node: &Node) -> String {
    node.uid().expect("a UID")
}

fn dry_run() -> PatchParams {
    PatchParams {
        dry_run: true,
        ..PatchParams::default()
    }
}

/// Answer to a kubelet's write, once it contains this much CPU. On a slow machine the API server may give up a call,
/// or still call a stopped replica; the write then passes unchanged.
async fn stored_as(stand: &Stand, status: &Value, cpu: &str) -> Node {
    let mut written = None;
    until("a write is answered with the amplified value", async || {
        let node = stand
            .patch_as_kubelet("n1", status)
            .await
            .expect("a kubelet's write passes");
        allocatable(written.insert(node), "cpu") == cpu
    })
    .await;
    written.expect("a write")
}

/// A stream to a replica that has accepted a hint of that many cents.
async fn hinted(stand: &Stand, webhook: &Webhook, node: &Node, cents: u32) -> ScriptedAgent {
    let token = stand.agent_token(node).await;
    let mut agent = ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&token))
        .await
        .expect("a stream");
    agent
        .pods_until(|_| true)
        .await
        .expect("the server's list of pods");
    let ack = agent
        .report(&hint("n1", &uid(node), 1, cents))
        .await
        .expect("an acknowledgement");
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelets_write_is_amplified_by_the_hint_and_annotated() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    let node = node(&stand).await;
    let mut agent = hinted(&stand, &webhook, &node, 150).await;

    // The hint is nudged in, without any write of the kubelet.
    let amplified = stand
        .node_until("n1", "amplified to 6", |node| allocatable(node, "cpu") == "6")
        .await;
    assert_eq!(allocatable(&amplified, "memory"), "8Gi");
    assert_eq!(
        annotation(&amplified, names::RAW_ALLOCATABLE),
        Some(r#"{"cpu":"4","memory":"8Gi"}"#)
    );
    assert_eq!(
        annotation(&amplified, names::RATIO),
        Some(r#"{"cpu":1.50,"memory":1.00}"#)
    );
    assert!(annotation(&amplified, names::HINT).is_some_and(|hint| hint.contains(r#""pub":150"#)));

    // The kubelet sends raw with its next heartbeat, and then a heartbeat alone: neither changes anything.
    for status in [
        json!({"allocatable": {"cpu": "4"}, "conditions": [ready(10)]}),
        json!({"conditions": [ready(20)]}),
    ] {
        let written = stored_as(&stand, &status, "6").await;
        assert_eq!(
            annotation(&written, names::RAW_ALLOCATABLE),
            Some(r#"{"cpu":"4","memory":"8Gi"}"#)
        );
    }

    // Beyond the bounds of the policy a hint is clamped.
    let mut higher = hint("n1", &uid(&node), 2, 900);
    higher.resources.memory.published = Cents(900);
    agent.report(&higher).await.expect("an acknowledgement");
    let clamped = stand
        .node_until("n1", "clamped to 2.00", |node| allocatable(node, "cpu") == "8")
        .await;
    assert_eq!(allocatable(&clamped, "memory"), "10Gi");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelets_write_passes_while_the_webhook_is_down() {
    let stand = Stand::start().await;
    let mut webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    let node = node(&stand).await;
    let agent = hinted(&stand, &webhook, &node, 150).await;
    stand
        .node_until("n1", "amplified to 6", |node| allocatable(node, "cpu") == "6")
        .await;
    drop(agent);
    webhook.process.stop().expect("stop the webhook");

    let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(10)]});
    let written = stand
        .patch_as_kubelet("n1", &status)
        .await
        .expect("failurePolicy is Ignore");
    assert_eq!(allocatable(&written, "cpu"), "4");

    // After the restart the annotation alone raises nothing, and the agent's first report restores the ratio.
    let webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(20)]});
    until("the replica is called", async || {
        let written = stand.patch_as_kubelet("n1", &status).await.expect("passes");
        assert_eq!(allocatable(&written, "cpu"), "4");
        count(&webhook, REVIEWS).await > 0
    })
    .await;
    let _agent = hinted(&stand, &webhook, &node, 150).await;
    stored_as(&stand, &status, "6").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_uses_its_stored_state_while_the_api_server_is_down() {
    let mut stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    let node = node(&stand).await;
    let _agent = hinted(&stand, &webhook, &node, 150).await;
    let stored = stand
        .node_until("n1", "amplified to 6", |node| allocatable(node, "cpu") == "6")
        .await;
    let unseen = stand.agent_token(&node).await;
    stand.cluster.stop_apiserver().expect("stop the API server");

    let stored = serde_json::to_value(&stored).expect("JSON");
    let mut written = stored.clone();
    written["status"]["allocatable"]["cpu"] = "4".into();
    let mut admission = Admission::connect(&webhook).await;
    let (status, body) = admission
        .post("/mutate-node-status", &review(&stored, &written))
        .await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let mut answer: Value = serde_json::from_str(&body).expect("a review");
    let patch = answer["response"]["patch"].take();
    let ByteString(patch) = serde_json::from_value(patch).expect("a patch");
    let patch: Vec<Value> = serde_json::from_slice(&patch).expect("operations");
    let restored = json!({"op": "replace", "path": "/status/allocatable/cpu", "value": "6"});
    assert!(patch.contains(&restored), "{patch:?}");
    // The token cannot be reviewed now; this is not a verdict on its owner.
    let refused = ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&unseen)).await;
    assert_eq!(refused.expect_err("no stream").code(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_give_the_same_patch() {
    let stand = Stand::start().await;
    let replicas = [
        stand.webhook("webhook-0", AUTO).await,
        stand.webhook("webhook-1", AUTO).await,
    ];
    stand.register(&replicas[0]).await;
    let node = node(&stand).await;
    let agents = [
        hinted(&stand, &replicas[0], &node, 137).await,
        hinted(&stand, &replicas[1], &node, 137).await,
    ];
    let first = stand
        .node_until("n1", "amplified to 5480m", |node| {
            allocatable(node, "cpu") == "5480m"
        })
        .await;

    // The same write through either replica, by dry run: the results are equal to the byte.
    let client = stand
        .cluster
        .client_for_node("n1")
        .await
        .expect("the node's client");
    let nodes: Api<Node> = Api::all(client);
    let patch = json!({"status": {"allocatable": {"cpu": "4"}, "conditions": [ready(10)]}});
    let mut answers = Vec::new();
    for replica in &replicas {
        stand.register(replica).await;
        // The API server takes a moment to call the other replica.
        until("the replica is called", async || {
            let before = count(replica, REVIEWS).await;
            let mut answer = nodes
                .patch_status("n1", &dry_run(), &Patch::Strategic(&patch))
                .await
                .expect("dry run");
            let is_called = count(replica, REVIEWS).await > before && allocatable(&answer, "cpu") == "5480m";
            if is_called {
                answer.metadata.managed_fields = None;
                answers.push(answer);
            }
            is_called
        })
        .await;
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(allocatable(&answers[0], "cpu"), allocatable(&first, "cpu"));
    drop(agents);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_cannot_write_our_annotations() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    let node = node(&stand).await;
    let _agent = hinted(&stand, &webhook, &node, 150).await;
    let before = stand
        .node_until("n1", "amplified to 6", |node| allocatable(node, "cpu") == "6")
        .await;

    let client = stand
        .cluster
        .client_for_node("n1")
        .await
        .expect("the node's client");
    let nodes: Api<Node> = Api::all(client);
    let forged = json!({"metadata": {"annotations": {
        names::RATIO: r#"{"cpu":9}"#, names::MODE: "off", names::RAW_ALLOCATABLE: r#"{"cpu":"400"}"#,
    }}});
    // Nothing is stored by these, so that a call that the API server gives up on leaves no trace.
    until("what was there before is restored", async || {
        let after = nodes
            .patch_status("n1", &dry_run(), &Patch::Merge(&forged))
            .await
            .expect("a kubelet's status write is never refused");
        [names::RATIO, names::MODE, names::RAW_ALLOCATABLE]
            .iter()
            .all(|key| annotation(&after, key) == annotation(&before, key))
            && allocatable(&after, "cpu") == "6"
    })
    .await;
    until("the same write of the Node itself is refused", async || {
        let answer = nodes.patch("n1", &dry_run(), &Patch::Merge(&forged)).await;
        matches!(answer, Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains(names::MODE))
    })
    .await;
}
