//! Tests of a kubelet and an agent that contradict each other, on a real API server with real reviews.
//!
//! Tests that an agent that keeps describing another machine raises nothing, that memory pressure is obeyed whatever
//! an agent reports, and that the kubelets' usage figures are read from `metrics.k8s.io`, which another server
//! provides.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{fs, time::Duration};

use e2e::{
    metrics_server::MetricsServer,
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, Stand, allocatable, annotation, count, ready},
};
use headroom_domain::{
    hint::{NodeHint, Note},
    names,
    ratio::Cents,
};
use headroom_testbed::webhook::Webhook;
use k8s_openapi::api::{
    core::v1::{Node, NodeCondition},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Api, Client, ResourceExt as _, api::PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use xtask::workspace;

/// A contradiction counts after a minute.
const FOUND_WITHIN: Duration = Duration::from_secs(120);

struct QuarantineSite {
    stand: Stand,
    webhook: Webhook,
    node: Node,
    agent: ScriptedAgent,
    seq: u64,
}

impl QuarantineSite {
    async fn start() -> Self {
        let stand = Stand::start().await;
        let webhook = stand.webhook("webhook-0", AUTO).await;
        stand.register(&webhook).await;
        let node = stand.create_node("n1", "4", "8Gi").await;
        let agent = stand.agent(&node, &webhook).await;
        Self {
            stand,
            webhook,
            node,
            agent,
            seq: 0,
        }
    }

    /// Reports a ratio of 1.20 for a machine of this size.
    async fn report(&mut self, cpu_milli: u64) {
        self.seq += 1;
        let listed = self.agent.pods_until(|_| true).await.expect("pods");
        let mut report = NodeHint {
            pods_generation: listed.generation,
            ..hint("n1", &self.node.uid().expect("a UID"), self.seq, 120)
        };
        report.resources.cpu.capacity = cpu_milli;
        report.resources.memory.capacity = 8 << 30;
        report.resources.memory.published = Cents(110);
        report.resources.memory.target = Cents(110);
        self.agent.report(&report).await.expect("an answer");
    }

    /// Reports until allocatable CPU is this; when that was.
    async fn reports_until(&mut self, cpu_milli: u64, cpu: &str) -> Node {
        let deadline = Instant::now() + FOUND_WITHIN;
        loop {
            self.report(cpu_milli).await;
            let node = self.stand.nodes().get("n1").await.expect("the Node");
            if allocatable(&node, "cpu") == cpu {
                return node;
            }
            assert!(Instant::now() < deadline, "never {cpu}: {:?}", node.status);
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Number of polls of node metrics with this result.
    async fn node_metrics_polls(&self, result: &str) -> u64 {
        let metric = format!("headroom_webhook_node_metrics_polls_total{{result=\"{result}\"}}");
        count(&self.webhook, &metric).await
    }

    async fn quarantines(&self) -> u64 {
        let metric = "headroom_webhook_quarantines_total{reason=\"capacity\"}";
        count(&self.webhook, metric).await
    }
}

/// Gives the webhook the rights that component `kubelet-use` does.
async fn add_component(client: &Client) {
    let file = workspace::root().join("deploy/kustomize/components/kubelet-use/rbac.yaml");
    let text = fs::read_to_string(file).expect("the component");
    let [role, binding]: [Value; 2] = serde_saphyr::from_multiple(&text)
        .expect("YAML")
        .try_into()
        .expect("two objects");
    let role: ClusterRole = serde_json::from_value(role).expect("a role");
    let binding: ClusterRoleBinding = serde_json::from_value(binding).expect("a binding");
    let (roles, bindings) = (Api::all(client.clone()), Api::all(client.clone()));
    let params = PostParams::default();
    roles.create(&params, &role).await.expect("create the role");
    bindings
        .create(&params, &binding)
        .await
        .expect("create the binding");
}

fn note(node: &Node) -> Note {
    let text = annotation(node, names::HINT).expect("a hint");
    text.parse().expect("a note")
}

/// Status and reason of the condition for brakes.
fn braked(node: &Node) -> Option<(String, String)> {
    let mut conditions = node.status.as_ref()?.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == names::BRAKED)?;
    let NodeCondition { status, reason, .. } = condition.clone();
    Some((status, reason?))
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_that_reports_another_machine_raises_no_ratio_until_it_agrees() {
    let mut site = QuarantineSite::start().await;
    site.reports_until(4_000, "4800m").await;
    assert_eq!(site.quarantines().await, 0);
    let node = site.reports_until(8_000, "4").await;
    assert_eq!(
        braked(&node),
        Some(("True".to_owned(), "CpuQuarantined".to_owned()))
    );
    assert_eq!(site.quarantines().await, 1);
    site.report(8_000).await;
    let policy = site.agent.policy.clone().expect("a policy");
    assert!(
        policy.quarantine.contains("another capacity"),
        "{:?}",
        policy.quarantine
    );
    let node = site.reports_until(4_000, "4800m").await;
    assert_eq!(braked(&node).map(|(status, _)| status).as_deref(), Some("False"));
    let policy = site.agent.policy.clone().expect("a policy");
    assert_eq!(policy.quarantine, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_pressure_condition_stops_memory_before_the_agent_does() {
    let mut site = QuarantineSite::start().await;
    let node = site.reports_until(4_000, "4800m").await;
    assert_eq!(note(&node).memory.published, 110);
    let pressed = json!({"conditions": [
        {"type": "MemoryPressure", "status": "True", "lastHeartbeatTime": "2026-11-20T10:00:00Z"}, ready(2),
    ]});
    site.stand
        .patch_as_kubelet("n1", &pressed)
        .await
        .expect("a write passes");
    let is_stopped = |node: &Node| allocatable(node, "memory") == "8Gi";
    let node = site.stand.node_until("n1", "memory is raw", is_stopped).await;
    assert_eq!(
        allocatable(&node, "cpu"),
        "4800m",
        "CPU does not rise, and does not fall"
    );
    let note = note(&node);
    assert_eq!((note.memory.brake, note.cpu.brake), (3, 1));
    assert_eq!(note.why.first().map(String::as_str), Some("memory-pressure"));
    assert_eq!(braked(&node), Some(("True".to_owned(), "CpuHold".to_owned())));
    assert!(site.agent.pods_until(|pods| pods.memory_pressure).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelet_metrics_are_read_through_the_api_server_with_the_components_rights() {
    let mut site = QuarantineSite::start().await;
    let server = MetricsServer::start(site.stand.cluster.dir(), &[("n1", "100m", "1Gi")]).await;
    server.register(&site.stand.client).await;
    add_component(&site.stand.client).await;
    let deadline = Instant::now() + FOUND_WITHIN;
    while site.node_metrics_polls("read").await == 0 {
        assert!(Instant::now() < deadline, "never read");
        site.report(4_000).await;
        sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(
        (
            site.node_metrics_polls("absent").await,
            site.node_metrics_polls("failed").await
        ),
        (0, 0)
    );
    assert_eq!(site.quarantines().await, 0);
}
