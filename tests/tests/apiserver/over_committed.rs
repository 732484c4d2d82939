//! Tests of a node with more set aside than raw, kept by a real kubelet: webhook and floor go and come back, raw
//! shrinks, or its maximum is lowered.
//!
//! Admitted pods are covered up to the cap and no further; no covered pod fails.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::time::Duration;

use e2e::{
    bound_pods::{all_run, bind_to_n1, delete, one_is_rejected, phases},
    etcd::{History, assert_only, course},
    policy_install,
    stand::{AUTO, Stand, allocatable, kubelet},
    steady_agent::SteadyAgent,
};
use headroom_domain::{names, resource::Resource::Cpu};
use headroom_testbed::{accounts, cluster::NodeOptions, webhook::Webhook};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

/// Pods of 1800 milli-cores each: two fit raw allocatable, three fit the amplified value.
const PODS: [&str; 3] = ["first", "second", "third"];
/// Restarts of the kubelet wherever one is to do no harm.
const RESTARTS: usize = 2;

/// Kubelet of 4 CPUs that writes each second and reserves this much of them.
fn eager(reserved_cpu_milli: u32) -> NodeOptions {
    NodeOptions {
        sync: Duration::from_secs(1),
        report: Duration::from_secs(1),
        reserved_cpu_milli,
        ..kubelet("n1")
    }
}

/// A node of 4 CPUs whose agent has it amplified to 6 of at most 8, with 5.4 set aside for its pods.
struct OverCommitted {
    stand: Stand,
    webhook: Webhook,
    agent: SteadyAgent,
    history: History,
}

impl OverCommitted {
    async fn start() -> Self {
        let mut stand = Stand::start().await;
        policy_install::install(&stand).await;
        let webhook = stand.webhook("webhook-0", AUTO).await;
        stand.register(&webhook).await;
        stand.cluster.start_node(eager(0)).await.expect("a node");
        let agent = SteadyAgent::start(&stand, &webhook, "n1", 150).await;
        until(&stand, "6").await;
        for name in PODS {
            bind_to_n1(&stand, name, "1800m").await;
            all_run(&stand, "the pods run").await;
        }
        let history = History::follow(&stand.cluster).await;
        Self {
            stand,
            webhook,
            agent,
            history,
        }
    }

    /// Restarts the kubelet with this reservation.
    async fn reserves(&mut self, cpu_milli: u32) {
        self.stand.cluster.stop_node("n1").expect("stop the kubelet");
        let started = self.stand.cluster.start_node(eager(cpu_milli)).await;
        started.expect("start the kubelet");
    }
}

async fn until(stand: &Stand, cpu: &str) {
    let is_so = |node: &_| allocatable(node, "cpu") == cpu;
    stand.node_until("n1", cpu, is_so).await;
}

/// Restarts the kubelet several times; no pod fails. A pod that is bound afterwards runs after the new kubelet has
/// admitted all others.
async fn restarts(stand: &mut Stand, state: &str) {
    for round in 0..RESTARTS {
        stand.cluster.restart_node("n1").expect("restart the kubelet");
        let last = format!("{state}-{round}");
        bind_to_n1(stand, &last, "0").await;
        all_run(stand, &last).await;
        delete(stand, &last).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn running_pods_are_covered_when_webhook_and_floor_return() {
    let OverCommitted {
        mut stand,
        mut webhook,
        agent,
        mut history,
    } = OverCommitted::start().await;
    drop(agent);
    webhook.process.stop().expect("stop the webhook");
    drop(webhook);
    policy_install::remove(&stand).await;
    // The kubelet finds that the Node has no raw value and writes it again. Its admitted pods continue to run.
    until(&stand, "4").await;
    all_run(&stand, "without webhook and floor").await;

    // The new replica has no connected agent: it restores only the capacity that the pods need.
    policy_install::install(&stand).await;
    let webhook = stand.webhook("webhook-1", AUTO).await;
    stand.register(&webhook).await;
    until(&stand, "5400m").await;
    restarts(&mut stand, "both-are-back").await;
    let states = history.new_revisions_of("n1").await;
    assert_eq!(course(&states, Cpu), [6000, 4000, 5400], "{states:#?}");
    drop(webhook);
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_below_bound_requests_keeps_pod_capacity_within_the_cap() {
    let mut node = OverCommitted::start().await;
    // Of 3 CPUs: 1.50 gives 4.5, the pods hold 5.4, and the maximum is 6.
    node.reserves(1000).await;
    until(&node.stand, "5400m").await;
    all_run(&node.stand, "with 3 CPUs").await;
    restarts(&mut node.stand, "with-three").await;
    assert_only(&node.history.new_revisions_of("n1").await, Cpu, &[6000, 5400]);

    // Of 2 CPUs at most 4: the kubelet rejects the pods that do not fit, as it would without us, and only those.
    node.reserves(2000).await;
    let is_capped = |node: &_| ["4", "3600m"].contains(&allocatable(node, "cpu").as_str());
    node.stand.node_until("n1", "capped", is_capped).await;
    node.stand
        .cluster
        .restart_node("n1")
        .expect("restart the kubelet");
    let turned_away = one_is_rejected(&node.stand).await;
    delete(&node.stand, &turned_away).await;
    until(&node.stand, "3600m").await;
    restarts(&mut node.stand, "with-two").await;
    assert_eq!(phases(&node.stand).await.len(), 2);
    let states = node.history.new_revisions_of("n1").await;
    assert_only(&states, Cpu, &[5400, 4000, 3600]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lowered_maximum_keeps_the_capacity_of_running_pods() {
    let mut node = OverCommitted::start().await;
    let text = r#"{"mode":"auto","bounds":{"cpu":{"max":1.1}}}"#;
    configure(&node.stand, text).await;
    // 1.10 gives 4.4; the pods may keep the capacity that was advertised before.
    until(&node.stand, "5400m").await;
    all_run(&node.stand, "below a lower maximum").await;
    restarts(&mut node.stand, "lowered").await;
    // No new pod fits above the maximum, and capacity that a pod leaves does not return.
    bind_to_n1(&node.stand, "late", "1800m").await;
    assert_eq!(one_is_rejected(&node.stand).await, "late");
    for name in ["late", "third"] {
        delete(&node.stand, name).await;
    }
    until(&node.stand, "4400m").await;
    restarts(&mut node.stand, "at-the-maximum").await;
    let states = node.history.new_revisions_of("n1").await;
    assert_eq!(course(&states, Cpu), [6000, 5400, 4400], "{states:#?}");
    drop((node.agent, node.webhook));
}

async fn configure(stand: &Stand, text: &str) {
    accounts::create_namespace(&stand.client, names::SLO_CONFIG_NAMESPACE)
        .await
        .expect("create the namespace");
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": names::SLO_CONFIG},
        "data": {names::AMPLIFICATION_CONFIG: text},
    });
    let maps: Api<ConfigMap> = Api::namespaced(stand.client.clone(), names::SLO_CONFIG_NAMESPACE);
    let params = PatchParams::apply("tests").force();
    let applied = maps
        .patch(names::SLO_CONFIG, &params, &Patch::Apply(&object))
        .await;
    applied.expect("apply the ConfigMap");
}
