//! Tests of polling node use, against a scripted `metrics.k8s.io`.

use std::sync::Mutex;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::store::{cluster::tests::cluster, hint_table::tests::hint};

/// API server with these answers, and the requests that it received.
fn scripted(answers: impl IntoIterator<Item = (u16, Value)>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let answers: Vec<_> = answers.into_iter().collect();
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let paths = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        paths.lock().unwrap().push(request.uri().path().to_owned());
        let (code, body) = answers.lock().unwrap().next().expect("an answer");
        let response = Response::builder()
            .status(code)
            .body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, std::convert::Infallible>(response.unwrap()) }
    });
    (Client::new(service, "default"), asked)
}

fn listed(cpu: &str, memory: &str) -> (u16, Value) {
    let list = json!({
        "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
        "items": [
            {"metadata": {"name": "n1"}, "timestamp": "2026-11-20T00:00:00Z", "window": "20s",
             "usage": {"cpu": cpu, "memory": memory}},
            {"metadata": {"name": "n2"}, "usage": {"cpu": "plenty"}},
            {"metadata": {"name": "n3"}},
        ],
    });
    (200, list)
}

fn refused(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no",
        "reason": reason, "code": code});
    (code, status)
}

#[tokio::test(start_paused = true)]
async fn it_is_asked_once_a_minute_while_agents_report_and_less_often_where_there_is_nothing() {
    let cluster = Arc::new(cluster([], []));
    let (client, asked) = scripted([
        refused(404, "NotFound"),
        refused(403, "Forbidden"),
        listed("100m", "1Gi"),
        refused(503, "ServiceUnavailable"),
        listed("100m", "1Gi"),
    ]);
    let count = |asked: &Mutex<Vec<String>>| asked.lock().unwrap().len();
    let stop = CancellationToken::new();
    let task = tokio::spawn(follow(client, Arc::clone(&cluster), stop.clone()));
    let mut counts = Vec::new();
    let mut minutes = async |minutes: u64| {
        sleep(Duration::from_secs(60 * minutes) + Duration::from_millis(1)).await;
        counts.push(count(&asked));
    };
    minutes(5).await;
    cluster.hints.offer(hint("n1", 1), cluster.now());
    for next in [1, 9, 1, 9, 1, 1, 1] {
        minutes(next).await;
    }
    stop.cancel();
    task.await.unwrap();
    assert_eq!(counts, [0, 1, 1, 2, 2, 3, 4, 5]);
    let paths = asked.lock().unwrap();
    assert!(
        paths
            .iter()
            .all(|path| path == "/apis/metrics.k8s.io/v1beta1/nodes"),
        "{paths:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_says_far_more_puts_its_node_in_quarantine() {
    let cluster = Arc::new(cluster([], []));
    let (client, _) = scripted(std::iter::repeat_n(listed("20", "8Gi"), 20));
    let stop = CancellationToken::new();
    let task = tokio::spawn(follow(client, Arc::clone(&cluster), stop.clone()));
    let mut found_at = None;
    for seq in 1..=76 {
        let mut hint = hint("n1", seq);
        hint.resources.cpu.capacity = 32_000;
        hint.resources.cpu.usage = 9_000;
        hint.resources.memory.usage = 8 << 30;
        cluster.hints.offer(hint, cluster.now());
        sleep(Duration::from_secs(15)).await;
        if cluster.quarantine("n1").is_some() {
            found_at.get_or_insert(seq / 4);
        }
    }
    stop.cancel();
    task.await.unwrap();
    assert_eq!(
        found_at,
        Some(13),
        "two frames and two minutes after the first of its answers"
    );
}
