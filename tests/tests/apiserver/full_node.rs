//! A node on which more is bound than it really has: its kubelet, real code, restarts and turns no running pod away,
//! whatever has become of the webhook.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use e2e::{
    etcd::{History, assert_only},
    floor,
    stand::{Stand, allocatable, kubelet, until},
};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::webhook::Webhook;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use rustix::process::Signal;
use serde_json::json;

/// Pods of 1800 milli-cores each: two fit what the node has, three what it is amplified to.
const PODS: [&str; 3] = ["first", "second", "third"];
/// Restarts in each state of the webhook.
const RESTARTS: usize = 2;

fn pods(stand: &Stand, namespace: &str) -> Api<Pod> {
    Api::namespaced(stand.client.clone(), namespace)
}

/// Binds a pod to a node, as a scheduler does.
async fn bind(stand: &Stand, namespace: &str, account: &str, name: &str, node: &str, cpu: &str) {
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "serviceAccountName": account,
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    let object = serde_json::from_value(object).expect("a Pod");
    let created = pods(stand, namespace)
        .create(&PostParams::default(), &object)
        .await;
    created.expect("create the pod");
}

/// Binds a pod to n1 that is nobody's in particular.
async fn bind_to_n1(stand: &Stand, name: &str, cpu: &str) {
    let (namespace, account) = (names::AGENT_NAMESPACE, names::AGENT_SERVICE_ACCOUNT);
    bind(stand, namespace, account, name, "n1", cpu).await;
}

/// Phase and reason of the pods on n1, by name.
async fn phases(stand: &Stand) -> Vec<(String, String, String)> {
    let all = pods(stand, names::AGENT_NAMESPACE)
        .list(&ListParams::default())
        .await;
    let all = all.expect("list the pods").items.into_iter();
    all.map(|pod| {
        let PodStatus { phase, reason, .. } = pod.status.clone().unwrap_or_default();
        (
            pod.name_any(),
            phase.unwrap_or_default(),
            reason.unwrap_or_default(),
        )
    })
    .collect()
}

/// Waits until all pods run; a pod that was turned away never will.
async fn all_run(stand: &Stand, when: &str) {
    until(when, async || {
        let phases = phases(stand).await;
        assert!(
            phases.iter().all(|(_, phase, _)| phase != "Failed"),
            "{when}: {phases:?}"
        );
        phases.iter().all(|(_, phase, _)| phase == "Running")
    })
    .await;
}

/// Restarts the kubelet some times. A pod that is bound afterwards runs when the new kubelet has looked at all others.
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
    assert_only(&history.news_of("n1").await, Resource::Cpu, &[6000]);
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
    floor::install(&stand).await;
    let mut webhook = full_node(&mut stand).await;
    let mut history = History::follow(&stand.cluster).await;

    restarts(&mut stand, &mut history, "up").await;
    webhook.process.signal(Signal::STOP).expect("freeze the webhook");
    restarts(&mut stand, &mut history, "hung").await;
    webhook.process.signal(Signal::CONT).expect("let it go on");
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

    // The same without the floor: of what fits only the amplified node, one is turned away. Which one, their times of
    // creation say, which count in whole seconds.
    floor::remove(&stand).await;
    stand.cluster.restart_node("n1").expect("restart the kubelet");
    until("a pod is turned away", async || {
        let phases = phases(&stand).await;
        let mut failed = phases.iter().filter(|(_, phase, _)| phase == "Failed");
        match (failed.next(), failed.next()) {
            (None, _) => false,
            (Some((name, _, reason)), None) => {
                assert!(
                    PODS.contains(&name.as_str()) && reason == "OutOfcpu",
                    "{phases:?}"
                );
                true
            }
            (Some(_), Some(_)) => panic!("more than one: {phases:?}"),
        }
    })
    .await;
}
