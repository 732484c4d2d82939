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
/// Longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

async fn until_cpu(stand: &Stand, node: &str, cpu: &str) {
    let is_so = |node: &Node| allocatable(node, "cpu") == cpu;
    stand.node_until(node, cpu, is_so).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_restarts_three_times_under_load_stores_nothing_wrong() {
    const KUBELETS: [&str; 3] = ["k1", "k2", "k3"];
    let mut stand = Stand::start().await;
    // It has much to do while it starts: a call that it gives up must not look like a wrong value.
    policy_install::install(&stand).await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    for name in KUBELETS {
        stand
            .cluster
            .start_node(eager_kubelet(name))
            .await
            .expect("a node");
        stand.ask_aside(name, 150).await;
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
            stand.ask_aside(name, cents).await;
        }
        for name in KUBELETS {
            until_cpu(&stand, name, cpu).await;
        }
    }
    for name in KUBELETS {
        let states = history.news_of(name).await;
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
async fn a_watch_that_stalls_while_etcd_forgets_is_given_up_and_all_is_listed_anew() {
    let mut stand = Stand::start().await;
    let (detour, webhook) = webhook_by_way_of_a_detour(&stand).await;
    stand.register(&webhook).await;
    for name in ["changed", "deleted"] {
        stand.create_node(name, "4", "8Gi").await;
        stand.ask(name, 150).await;
        until_cpu(&stand, name, "6").await;
    }
    let history = History::follow(&stand.cluster).await;
    let listed = count(&webhook, LISTED).await;

    // The watch stays open, and nothing comes any more.
    detour.lag(HOUR);
    stand.ask_aside("changed", 120).await;
    stand
        .nodes()
        .delete("deleted", &DeleteParams::default())
        .await
        .expect("delete the node");
    stand.create_node("created", "4", "8Gi").await;
    stand.ask_aside("created", 130).await;
    history.compact().await;
    // Its own memory of events goes with it: whoever wants to go on from where it was is told that this is gone.
    stand
        .cluster
        .start_apiserver()
        .await
        .expect("restart the API server");
    detour.lag(Duration::ZERO);

    // Longer than other things take: a stalled watch is told from a quiet one by the minute that it should last.
    let deadline = Instant::now() + HAPPENS_WITHIN * 2;
    while count(&webhook, LISTED).await == listed {
        assert!(Instant::now() < deadline, "the stalled watch was not given up");
        sleep(Duration::from_millis(200)).await;
    }
    until_cpu(&stand, "changed", "4800m").await;
    until_cpu(&stand, "created", "5200m").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_refuses_is_asked_again_when_it_said() {
    let stand = Stand::start().await;
    let (detour, webhook) = webhook_by_way_of_a_detour(&stand).await;
    stand.register(&webhook).await;
    stand.create_node("n1", "4", "8Gi").await;
    stand.ask_aside("n1", 150).await;
    until_cpu(&stand, "n1", "6").await;

    detour.refuse(true);
    let before = detour.sent().len();
    stand.ask_aside("n1", 120).await;
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

/// Is the replica ready?
async fn is_ready(webhook: &Webhook) -> bool {
    let (status, _) = get(webhook.admin, READYZ).await.expect("an answer");
    status.is_success()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_watch_is_dead_lowers_nothing_and_is_unready_while_another_sees() {
    let stand = Stand::start().await;
    let (detour, deaf) = webhook_by_way_of_a_detour(&stand).await;
    let sighted = stand.webhook("webhook-1", "{}").await;
    stand.register(&deaf).await;
    stand.create_node("n1", "4", "8Gi").await;
    stand.ask("n1", 150).await;
    until_cpu(&stand, "n1", "6").await;

    // The connection stays open, and nothing comes any more.
    detour.lag(HOUR);
    let began = Instant::now();
    while is_ready(&deaf).await {
        assert!(
            began.elapsed() < UNKNOWN_AFTER + HAPPENS_WITHIN,
            "ready all the same"
        );
        sleep(Duration::from_millis(500)).await;
    }
    // What it has just received before that is not older.
    assert!(began.elapsed() > UNKNOWN_AFTER / 2, "{:?}", began.elapsed());
    assert!(is_ready(&sighted).await);
    stand.ask("n1", 120).await;
    until_cpu(&stand, "n1", "6").await;

    drop(sighted);
    until("nobody sees, and one answers", async || is_ready(&deaf).await).await;
    until_cpu(&stand, "n1", "6").await;

    detour.lag(Duration::ZERO);
    until_cpu(&stand, "n1", "4800m").await;
    assert!(is_ready(&deaf).await);
}
