//! The real `headroom-webhook` process on one CPU answers reviews without delay while it sweeps a fleet of 5000 Nodes.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::time::Duration;

use bytes::Bytes;
use e2e::{
    admission::Admission,
    built::programs,
    stand::until,
    tls_server::{TlsServer, json_answer},
};
use headroom_domain::names;
use headroom_kit::serve::RequestBody;
use headroom_testbed::{programs::get, webhook::Webhook};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::ByteString;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::webhook::{node_review, spawn};

/// Nodes of the fleet: a sweep of that size takes far longer than any review.
const NODES: u32 = 5000;
/// Reviews whose times are compared, and the time between two: several sweeps begin meanwhile.
const REVIEWS: usize = 400;
const EVERY: Duration = Duration::from_millis(20);

/// A Node that follows the rules: amplified by its ratio annotation.
fn node(number: u32) -> Value {
    let marker = json!({
        "cpu": "4800m", "memory": "8Gi", "uid": "u1",
        "from": {"cpu": {"capacity": "4", "raw": "4"}, "memory": {"capacity": "8Gi", "raw": "8Gi"}},
    });
    json!({
        "metadata": {
            "name": format!("node-{number:04}"), "uid": "u1", "resourceVersion": "7",
            "annotations": {
                names::MODE: "static",
                names::RATIO: r#"{"cpu":1.2}"#,
                names::RAW_ALLOCATABLE: r#"{"cpu":"4","memory":"8Gi"}"#,
                names::MARKER: marker.to_string(),
            },
        },
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "allocatable": {"cpu": "4800m", "memory": "8Gi"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T00:00:00Z"}],
        },
    })
}

/// An API server that has these nodes and no pods, accepts the lease, and sends no watch events.
async fn api_server(folder: &TempDir, nodes: u32) -> TlsServer {
    let list = |items: Vec<Value>| json!({"metadata": {"resourceVersion": "9"}, "items": items}).to_string();
    let nodes = Bytes::from(list((0..nodes).map(node).collect()));
    let nothing = Bytes::from(list(Vec::new()));
    let hosts = ["localhost".to_owned()];
    TlsServer::start(folder.path(), "api-server", &hosts, move |request| {
        let (nodes, nothing) = (nodes.clone(), nothing.clone());
        async move { answer(request, nodes, nothing).await }
    })
    .await
}

async fn answer(request: Request<RequestBody>, nodes: Bytes, nothing: Bytes) -> Response<Full<Bytes>> {
    let uri = request.uri().clone();
    if uri.query().is_some_and(|query| query.contains("watch=")) {
        sleep(Duration::from_secs(3600)).await;
    }
    match uri.path() {
        "/api/v1/nodes" => Response::new(Full::new(nodes)),
        path if path.ends_with("/leases") && request.method() == Method::POST => {
            let lease = request.into_body().collect().await.expect("a lease");
            Response::new(Full::new(lease.to_bytes()))
        }
        path if path.ends_with("/pods") || path.ends_with("/configmaps") => Response::new(Full::new(nothing)),
        _ => {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
            });
            let mut answer = json_answer(Some(&status));
            *answer.status_mut() = StatusCode::NOT_FOUND;
            answer
        }
    }
}

/// Kubeconfig for it.
fn kubeconfig(server: &TlsServer) -> String {
    let cluster = json!({
        "server": format!("https://localhost:{}", server.address.port()),
        "certificate-authority-data": ByteString(server.ca.clone()),
    });
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    })
    .to_string()
}

/// Webhook on one CPU that leads a cluster of this size.
async fn leader(folder: &TempDir, server: &TlsServer) -> Webhook {
    programs().await;
    let everywhere = sched_getaffinity(None).expect("the CPUs of this thread");
    let mut one = CpuSet::new();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| everywhere.is_set(*cpu));
    one.set(first.expect("a CPU"));
    // Threads and processes inherit it. The runtime of this test has one thread, so it is this one that starts the program.
    sched_setaffinity(None, &one).expect("one CPU");
    let webhook = spawn(folder, &kubeconfig(server), &[]).await;
    sched_setaffinity(None, &everywhere).expect("all CPUs again");
    until("it leads", async || {
        let (_, page) = get(webhook.admin, "/metrics").await.expect("metrics");
        String::from_utf8_lossy(&page).contains("headroom_webhook_leader 1")
    })
    .await;
    webhook
}

/// The time that nineteen of twenty reviews are answered within.
async fn reviewed_within(nodes: u32) -> Duration {
    let folder = tempfile::tempdir().expect("folder");
    let server = api_server(&folder, nodes).await;
    let webhook = leader(&folder, &server).await;
    let mut admission = Admission::connect(&webhook).await;
    let mut beat = interval(EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut times = Vec::new();
    for _ in 0..REVIEWS {
        // From when it was to be sent: those that wait behind a slow one are slow, too.
        let due = beat.tick().await;
        let (status, _) = admission.post("/mutate-node-status", &node_review()).await;
        assert_eq!(status, StatusCode::OK);
        times.push(Instant::now().saturating_duration_since(due));
    }
    times.sort();
    *times.get(REVIEWS * 19 / 20).expect("times")
}

#[tokio::test]
async fn sweep_of_five_thousand_nodes_does_not_slow_the_leaders_reviews() {
    let undisturbed = reviewed_within(1).await;
    let loaded = reviewed_within(NODES).await;
    println!("19 of 20 reviews within {undisturbed:?} with one node, {loaded:?} with {NODES}");
    assert!(
        loaded < undisturbed * 3 + 2 * EVERY,
        "{undisturbed:?} with one node, {loaded:?} with {NODES}"
    );
}
