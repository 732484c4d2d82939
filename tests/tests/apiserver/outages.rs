//! The webhook recovers by itself, and nothing wrong is stored, when the API server restarts, forgets its history or
//! refuses requests.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{fs, path::PathBuf, time::Duration};

use e2e::{
    delayed_proxy::{DelayedProxy, RETRY_AFTER},
    etcd::{History, course},
    policy_install,
    stand::{HAPPENS_WITHIN, Stand, allocatable, count, eager_kubelet, until},
};
use headroom_domain::resource::Resource::Cpu;
use headroom_kit::admin::READYZ;
use headroom_testbed::{accounts, programs::get, webhook::Webhook};
use headroom_webhook::store::informer::UNKNOWN_AFTER;
use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::{Instant, sleep};

/// Nodes that the webhook has received in lists.
const LISTED: &str = r#"headroom_webhook_informer_events_total{resource="nodes",event="listed"}"#;
const HOUR: Duration = Duration::from_secs(3600);

async fn until_cpu(stand: &Stand, node: &str, cpu: &str) {
    let is_so = |node: &Node| allocatable(node, "cpu") == cpu;
    stand.node_until(node, cpu, is_so).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_restarted_three_times_under_load_stores_no_wrong_value() {
    const KUBELETS: [&str; 3] = ["k1", "k2", "k3"];
    let mut stand = Stand::start().await;
    // It is under load while it starts: a call that it abandons must not look like a wrong value.
    policy_install::install(&stand).await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    for name in KUBELETS {
        stand
            .cluster
            .start_node(eager_kubelet(name))
            .await
            .expect("a node");
        stand.annotate_ratio(name, 150).await;
        until_cpu(&stand, name, "5700m").await;
    }
    let mut history = History::follow(&stand.cluster).await;
    for (cents, cpu) in [(120, "4560m"), (150, "5700m"), (130, "4940m")] {
        stand
            .cluster
            .start_apiserver()
            .await
            .expect("restart the API server");
        for name in KUBELETS {
            stand.annotate_ratio(name, cents).await;
        }
        for name in KUBELETS {
            until_cpu(&stand, name, cpu).await;
        }
    }
    for name in KUBELETS {
        let states = history.new_revisions_of(name).await;
        assert_eq!(course(&states, Cpu), [5700, 4560, 5700, 4940], "{states:#?}");
    }
}

/// Starts a replica that reaches the API server by a detour.
async fn webhook_by_way_of_a_detour(stand: &Stand) -> (DelayedProxy, Webhook) {
    let client = stand.cluster.client_for(&accounts::webhook(), None).await;
    let detour = DelayedProxy::open(client.expect("the webhook's client")).await;
    let kubeconfig: PathBuf = stand.cluster.dir().join("detour.kubeconfig");
    let named = |kind: &str, object| json!([{"name": "detour", kind: object}]);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "detour",
        "clusters": named("cluster", json!({"server": detour.url()})),
        "users": named("user", json!({})),
        "contexts": named("context", json!({"cluster": "detour", "user": "detour"})),
    });
    fs::write(&kubeconfig, config.to_string()).expect("write the kubeconfig");
    let options = stand.webhook_options("webhook-0", "{}").kubeconfig(&kubeconfig);
    let webhook = Webhook::start(&options).await.expect("start the webhook");
    (detour, webhook)
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_watch_is_relisted_after_etcd_compaction() {
    let mut stand = Stand::start().await;
    let (detour, webhook) = webhook_by_way_of_a_detour(&stand).await;
    stand.register(&webhook).await;
    for name in ["changed", "deleted"] {
        stand.create_node(name, "4", "8Gi").await;
        stand.set_ratio(name, 150).await;
        until_cpu(&stand, name, "6").await;
    }
    let history = History::follow(&stand.cluster).await;
    let listed = count(&webhook, LISTED).await;

    // The watch stays open and delivers nothing.
    detour.lag(HOUR);
    stand.annotate_ratio("changed", 120).await;
    stand
        .nodes()
        .delete("deleted", &DeleteParams::default())
        .await
        .expect("delete the node");
    stand.create_node("created", "4", "8Gi").await;
    stand.annotate_ratio("created", 130).await;
    history.compact().await;
    // Its own memory of events is lost with it: a watch that continues from an old version gets an error.
    stand
        .cluster
        .start_apiserver()
        .await
        .expect("restart the API server");
    detour.lag(Duration::ZERO);

    // Longer than other limits: a stalled watch is distinguished from a quiet one by its requested minute.
    let deadline = Instant::now() + HAPPENS_WITHIN * 2;
    while count(&webhook, LISTED).await == listed {
        assert!(Instant::now() < deadline, "the stalled watch was not ended");
        sleep(Duration::from_millis(200)).await;
    }
    until_cpu(&stand, "changed", "4800m").await;
    until_cpu(&stand, "created", "5200m").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_request_is_retried_after_the_servers_retry_after() {
    let stand = Stand::start().await;
    let (detour, webhook) = webhook_by_way_of_a_detour(&stand).await;
    stand.register(&webhook).await;
    stand.create_node("n1", "4", "8Gi").await;
    stand.annotate_ratio("n1", 150).await;
    until_cpu(&stand, "n1", "6").await;

    detour.refuse(true);
    let before = detour.sent().len();
    stand.annotate_ratio("n1", 120).await;
    until("the first write is refused", async || {
        detour.sent().len() > before
    })
    .await;
    let began = Instant::now();
    until("two more are", async || detour.sent().len() >= before + 3).await;
    assert!(
        began.elapsed() > RETRY_AFTER * 2 * 9 / 10,
        "{:?}",
        began.elapsed()
    );

    detour.refuse(false);
    until_cpu(&stand, "n1", "4800m").await;
}

async fn is_ready(webhook: &Webhook) -> bool {
    let (status, _) = get(webhook.admin, READYZ).await.expect("an answer");
    status.is_success()
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_with_a_dead_watch_is_unready_and_lowers_no_node() {
    let stand = Stand::start().await;
    let (detour, deaf) = webhook_by_way_of_a_detour(&stand).await;
    let sighted = stand.webhook("webhook-1", "{}").await;
    stand.register(&deaf).await;
    stand.create_node("n1", "4", "8Gi").await;
    stand.set_ratio("n1", 150).await;
    until_cpu(&stand, "n1", "6").await;

    // The connection stays open and delivers nothing.
    detour.lag(HOUR);
    let began = Instant::now();
    while is_ready(&deaf).await {
        assert!(
            began.elapsed() < UNKNOWN_AFTER + HAPPENS_WITHIN,
            "ready nevertheless"
        );
        sleep(Duration::from_millis(500)).await;
    }
    // It is not unknown earlier, because the data received before the stall is fresh.
    assert!(began.elapsed() > UNKNOWN_AFTER / 2, "{:?}", began.elapsed());
    assert!(is_ready(&sighted).await);
    stand.set_ratio("n1", 120).await;
    until_cpu(&stand, "n1", "6").await;

    drop(sighted);
    until("no replica has a live watch, and one answers", async || {
        is_ready(&deaf).await
    })
    .await;
    until_cpu(&stand, "n1", "6").await;

    detour.lag(Duration::ZERO);
    until_cpu(&stand, "n1", "4800m").await;
    assert!(is_ready(&deaf).await);
}
