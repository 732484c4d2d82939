//! [`StatusWriter`] writes a Node's status ten times a second, and creates and deletes pods, until a test stops it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use e2e::product::Product;
use headroom_testbed::real_node::pods;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

const EVERY: Duration = Duration::from_millis(100);
/// One of this number of writes is accompanied by a new pod.
const PODS_EVERY: u64 = 10;
/// Counter of requests that the API server let pass because a webhook failed.
const PASSED: &str = "apiserver_admission_webhook_fail_open_count";

pub(super) struct StatusWriter {
    client: Client,
    passed_before: u64,
    must_stop: Arc<AtomicBool>,
    writes: JoinHandle<(u64, Duration)>,
}

impl StatusWriter {
    pub(super) async fn start(product: &Product) -> Self {
        let client = product.client.clone();
        let must_stop = Arc::new(AtomicBool::new(false));
        let name = product.node.name().to_owned();
        Self {
            passed_before: passed(&client).await,
            writes: tokio::spawn(write(client.clone(), name, Arc::clone(&must_stop))),
            client,
            must_stop,
        }
    }

    /// Stops, and checks that the webhook answered each request.
    pub(super) async fn finish(self, during: &str) {
        self.must_stop.store(true, Ordering::Relaxed);
        let (writes, slowest) = self.writes.await.expect("each request succeeds");
        println!("{during}: {writes} writes of the status, the slowest took {slowest:?}");
        assert!(writes >= 20, "{writes} writes");
        let passed = passed(&self.client).await - self.passed_before;
        assert_eq!(
            passed, 0,
            "{during}: the API server did not get an answer from the webhook"
        );
    }
}

async fn write(client: Client, name: String, must_stop: Arc<AtomicBool>) -> (u64, Duration) {
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let (mut writes, mut slowest) = (0, Duration::ZERO);
    while !must_stop.load(Ordering::Relaxed) {
        let condition = json!({
            "type": "example.com/Written",
            "status": "True",
            "reason": "Test",
            "message": format!("write {writes}"),
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let began = Instant::now();
        let written = nodes.patch_status(&name, &PatchParams::default(), &patch).await;
        written.expect("write the status");
        slowest = slowest.max(began.elapsed());
        if writes % PODS_EVERY == 0 {
            replace_pod(&pods, writes / PODS_EVERY).await;
        }
        writes += 1;
        sleep(EVERY).await;
    }
    delete(&pods, writes.saturating_sub(1) / PODS_EVERY).await;
    (writes, slowest)
}

/// Creates a pod, and deletes the one of the last call.
async fn replace_pod(pods: &Api<Pod>, number: u64) {
    let pod = pods::idle(&format!("churn-{number}"), &Value::Null).expect("a pod");
    pods.create(&PostParams::default(), &pod)
        .await
        .expect("create a pod");
    if let Some(last) = number.checked_sub(1) {
        delete(pods, last).await;
    }
}

async fn delete(pods: &Api<Pod>, number: u64) {
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(&format!("churn-{number}"), &at_once)
        .await
        .expect("delete a pod");
}

async fn passed(client: &Client) -> u64 {
    let request = http::Request::get("/metrics")
        .body(Vec::new())
        .expect("a request");
    let metrics = client.request_text(request).await.expect("metrics");
    let values = metrics.lines().filter(|line| line.starts_with(PASSED));
    values
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}
