//! Tests that a real kubelet that restarts on a node with more bound than raw rejects no running pod, whether the
//! webhook is up, hung or dead. Without the floor it rejects one.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use e2e::{
    bound_pods::{all_run, bind, bind_to_n1, one_is_rejected, pods},
    etcd::{History, assert_only},
    policy_install,
    stand::{Stand, allocatable, kubelet, until},
};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::webhook::Webhook;
use rustix::process::Signal;

/// Pods of 1800 milli-cores each: two fit raw allocatable, three fit the amplified value.
const PODS: [&str; 3] = ["first", "second", "third"];
/// Restarts in each state of the webhook.
const RESTARTS: usize = 2;

/// Restarts the kubelet several times. A pod that is bound afterwards runs after the new kubelet has admitted all
/// others.
async fn restarts(stand: &mut Stand, history: &mut History, state: &str) {
    for round in 0..RESTARTS {
        stand.cluster.restart_node("n1").expect("restart the kubelet");
        bind_to_n1(stand, &format!("{state}-{round}"), "0").await;
        all_run(
            stand,
            &format!("the webhook is {state}, restart {round}: all pods run"),
        )
        .await;
    }
    assert_only(&history.new_revisions_of("n1").await, Resource::Cpu, &[6000]);
}

/// A node n1 of 4 CPUs, amplified to 6, with 5.4 bound.
async fn full_node(stand: &mut Stand) -> Webhook {
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    stand.cluster.start_node(kubelet("n1")).await.expect("node");
    stand.annotate("n1", names::RATIO, r#"{"cpu":1.5}"#).await;
    stand
        .node_until("n1", "amplified to 6", |node| allocatable(node, "cpu") == "6")
        .await;
    for name in PODS {
        bind_to_n1(stand, name, "1800m").await;
        all_run(stand, "the pods run").await;
    }
    webhook
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_restarts_on_a_full_node_turns_pods_away_only_without_the_floor() {
    let mut stand = Stand::start().await;
    policy_install::install(&stand).await;
    let mut webhook = full_node(&mut stand).await;
    let mut history = History::follow(&stand.cluster).await;

    restarts(&mut stand, &mut history, "up").await;
    webhook.process.signal(Signal::STOP).expect("freeze the webhook");
    restarts(&mut stand, &mut history, "hung").await;
    webhook.process.signal(Signal::CONT).expect("resume it");
    webhook.process.signal(Signal::KILL).expect("kill the webhook");
    restarts(&mut stand, &mut history, "dead").await;

    // Nor does anything of ours have to answer for a node to join, and for our own pods to start there.
    stand.cluster.start_node(kubelet("n2")).await.expect("node");
    let (namespace, account) = (names::NAMESPACE, names::WEBHOOK_SERVICE_ACCOUNT);
    bind(&stand, namespace, account, "webhook", "n2", "100m").await;
    until("our own pod runs", async || {
        let pod = pods(&stand, namespace)
            .get("webhook")
            .await
            .expect("read the pod");
        pod.status.and_then(|status| status.phase).as_deref() == Some("Running")
    })
    .await;

    // The same without the floor: one of the pods that fit only the amplified node is rejected. The order of creation
    // times, which have a resolution of one second, decides which one.
    policy_install::remove(&stand).await;
    stand.cluster.restart_node("n1").expect("restart the kubelet");
    let turned_away = one_is_rejected(&stand).await;
    assert!(PODS.contains(&turned_away.as_str()), "{turned_away}");
}
