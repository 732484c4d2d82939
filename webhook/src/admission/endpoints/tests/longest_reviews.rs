//! Tests that the longest reviews that the API server can send are judged: Go writes `<`, `>` and `&` as six bytes.

use super::{review::ReviewBuilder, *};

/// Longest object that etcd stores by default.
const STORED: usize = 3 << 19;
/// Longest request body that the API server decodes.
const SENT: usize = 3 << 20;

/// A review as Go encodes it.
fn escaped(review: &str) -> Bytes {
    review.replace('<', r"\u003c").replace('&', r"\u0026").into()
}

/// Verdict on a review whose length every limit permits; a debug build needs more time than an endpoint has.
fn verdict(path: &str, body: &Bytes) -> Value {
    let router = router(FixtureCluster::default());
    let endpoint = router.endpoint(path).unwrap();
    let limits = [
        Limits::default().body_bytes,
        endpoint.declaration().limits.body_bytes,
    ];
    assert!(body.len() > 17 << 20 && limits.iter().all(|limit| body.len() <= *limit));
    let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
    let answer = router.answer(endpoint, body, deadline);
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
    body["response"].take()
}

#[test]
fn longest_status_of_a_kubelet_is_amplified() {
    let conditions = json!([
        {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
        {"type": "Odd", "status": "True", "message": "<".repeat(STORED - 4096)},
    ]);
    let amounts = json!({"cpu": "4", "memory": "8Gi"});
    let old = json!({
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "u1", "annotations": {names::RATIO: r#"{"cpu":1.5}"#}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions},
    });
    let mut new = old.clone();
    new["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:10Z".into();
    let review = ReviewBuilder::update("nodes/status", &old, &new).user("system:node:n1", &[]);
    let body = escaped(&review.build());
    let answer = verdict("/mutate-node-status", &body);
    let mut stored = new;
    json_patch::patch(&mut stored, &patch_of(&answer)).unwrap();
    assert_eq!(stored["status"]["allocatable"]["cpu"], "6");
}

/// A Binding is not stored, so only the limit of a request bounds it.
#[test]
fn longest_binding_is_refused_for_its_labels() {
    let binding = json!({
        "kind": "Binding",
        "metadata": {
            "name": "p", "namespace": "ns", "labels": {"koordinator.sh/qosClass": "LSR"},
            "annotations": {"x": "&".repeat(SENT - 4096)},
        },
        "target": {"kind": "Node", "name": "n1"},
    });
    let review = ReviewBuilder::create("pods/binding", &binding);
    let body = escaped(&review.build());
    let answer = verdict("/validate-pod-binding", &body);
    assert_eq!(answer["allowed"], false);
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("metadata.labels[koordinator.sh/qosClass]"),
        "{message}"
    );
}

#[test]
fn finalizers_of_the_longest_pod_can_be_removed() {
    let old = json!({
        "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"],
        },
        "spec": {"containers": [{"name": "c", "env": [{"name": "E", "value": "<".repeat(STORED - 4096)}]}]},
    });
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!([]);
    let body = escaped(&ReviewBuilder::update("pods", &old, &new).build());
    // Nothing is known to this replica.
    let answer = verdict("/validate-pod", &body);
    assert_eq!(answer["allowed"], true);
}
