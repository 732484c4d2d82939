//! Tests of de-amplification on a real API server: off unless the administrator allows it, never below bound requests,
//! and explained.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::process::Command;

use e2e::{
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, Stand, allocatable, annotation, ready},
};
use headroom_domain::{hint::NodeHint, names};
use headroom_testbed::{accounts, agent::write_secret, webhook::Webhook};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

/// A node may be lowered to half of the kubelet's allocatable.
const PROTECT: &str = "amplification: {mode: auto, bounds: {cpu: {min: 0.5}}}";

struct ProtectSite {
    stand: Stand,
    webhook: Webhook,
    node: Node,
    agent: ScriptedAgent,
    seq: u64,
}

impl ProtectSite {
    async fn start(config: &str) -> Self {
        let stand = Stand::start().await;
        let webhook = stand.webhook("webhook-0", config).await;
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

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.stand.client.clone(), names::AGENT_NAMESPACE)
    }

    async fn bind(&self, name: &str, cpu: &str) {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "serviceAccountName": names::AGENT_SERVICE_ACCOUNT,
                "nodeName": "n1",
                "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu}}}],
            },
        });
        let pod = serde_json::from_value(pod).expect("a Pod");
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .expect("create the pod");
    }

    /// Reports a ratio after the replica has listed `pods` pods.
    async fn report(&mut self, cents: u32, pods: usize) {
        self.seq += 1;
        let listed = self.agent.pods_until(|listed| listed.pods.len() == pods).await;
        let report = NodeHint {
            pods_generation: listed.expect("pods").generation,
            ..hint("n1", &self.node.uid().expect("a UID"), self.seq, cents)
        };
        self.agent.report(&report).await.expect("an answer");
    }

    async fn until(&self, cpu: &str) -> Node {
        let is_so = |node: &Node| allocatable(node, "cpu") == cpu;
        self.stand.node_until("n1", cpu, is_so).await
    }

    /// Output of `kubectl headroom explain` for the node.
    async fn explanation(&self) -> String {
        let token = accounts::debug_token(&self.stand.client).await.expect("a token");
        let file = self.stand.cluster.dir().join("debug.token");
        write_secret(&file, &token).expect("write");
        let mut command = Command::new(&self.stand.programs.cli);
        command
            .args(["--addr", &self.webhook.hints.to_string()])
            .arg("--ca-file")
            .arg(&self.webhook.ca)
            .arg("--token-file")
            .arg(&file)
            .args(["explain", "n1"]);
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.expect("join").expect("run it");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// A write of the kubelet, which finds raw.
    async fn sync(&self, second: u32) -> String {
        let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(second)]});
        let written = self.stand.patch_as_kubelet("n1", &status).await;
        allocatable(&written.expect("a write passes"), "cpu")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_node_is_lowered_below_raw_if_allowed_but_not_below_bound_requests() {
    let mut site = ProtectSite::start(PROTECT).await;
    site.bind("a", "3").await;
    site.report(70, 1).await;
    // 0.70 of 4 CPUs are 2800m; bound requests keep it at 3.
    let node = site.until("3").await;
    assert_eq!(site.sync(1).await, "3", "a kubelet's write does not raise it");
    let ratio = annotation(&node, names::RATIO).expect("a ratio");
    assert!(
        ratio.contains(r#""cpu":1.00"#),
        "Koordinator knows no ratio below 1: {ratio}"
    );
    let explained = site.explanation().await;
    assert!(explained.contains("0.70"), "{explained}");
    assert!(explained.contains("floor-fit"), "{explained}");

    let at_once = DeleteParams::default().grace_period(0);
    site.pods().delete("a", &at_once).await.expect("delete the pod");
    site.until("2800m").await;
    site.report(30, 0).await;
    site.until("2").await;
    let explained = site.explanation().await;
    assert!(
        explained.contains("clamped-min"),
        "the policy allows 0.50: {explained}"
    );
    // It rises again by small steps.
    site.report(100, 0).await;
    site.until("2200m").await;
    site.until("4").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_stay_at_or_above_raw_unless_the_administrator_allows_less() {
    let mut site = ProtectSite::start(AUTO).await;
    site.report(120, 0).await;
    site.until("4800m").await;
    site.report(70, 0).await;
    site.until("4").await;
    assert_eq!(site.sync(1).await, "4");
    let explained = site.explanation().await;
    assert!(explained.contains("clamped-min"), "{explained}");
}
