//! Tests of policies from Koordinator's ConfigMap on a real API server: selection by label, changes without a restart,
//! and the last good version, which is kept.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::process::Command;

use e2e::{
    admission::{Admission, review},
    stand::{Stand, allocatable, annotation, count, ready, until},
};
use headroom_domain::names;
use headroom_testbed::{accounts, agent::write_secret, webhook::Webhook};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Node},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The configuration file of these tests: `static`, and a ratio annotation counts up to 3.
const FILE: &str = "amplification: {staticMax: {cpu: 3}}";
/// The ratio annotation of both nodes.
const RATIO: &str = r#"{"cpu":4}"#;
const VERSIONS: &str = "headroom_webhook_config_versions_total";

/// Nodes `n1` of pool `batch` and `n2` of pool `web`, both of raw 4 CPUs and with a ratio annotation of 4.
struct PolicySite {
    stand: Stand,
    webhook: Webhook,
    heartbeat: u32,
}

impl PolicySite {
    async fn start() -> Self {
        let stand = Stand::start().await;
        accounts::create_namespace(&stand.client, names::SLO_CONFIG_NAMESPACE)
            .await
            .expect("create the namespace");
        let webhook = stand.webhook("webhook-0", FILE).await;
        for (name, pool) in [("n1", "batch"), ("n2", "web")] {
            stand.create_node(name, "4", "8Gi").await;
            let metadata = json!({"labels": {"pool": pool}, "annotations": {names::RATIO: RATIO}});
            annotate(&stand, name, &metadata).await;
        }
        stand.register(&webhook).await;
        let mut site = Self {
            stand,
            webhook,
            heartbeat: 0,
        };
        // By the file, and by then the API server calls the webhook.
        for node in ["n1", "n2"] {
            site.becomes(node, "12").await;
        }
        site
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.stand.client.clone(), names::SLO_CONFIG_NAMESPACE)
    }

    async fn configure(&self, text: &str) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": names::SLO_CONFIG},
            "data": {names::AMPLIFICATION_CONFIG: text},
        });
        self.config_maps()
            .patch(
                names::SLO_CONFIG,
                &PatchParams::apply("tests").force(),
                &Patch::Apply(&object),
            )
            .await
            .expect("apply the ConfigMap");
    }

    /// A status sync of the kubelet, which sends raw.
    async fn sync(&mut self, node: &str) -> Node {
        self.heartbeat += 1;
        let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(self.heartbeat)]});
        self.stand
            .patch_as_kubelet(node, &status)
            .await
            .expect("a kubelet's write passes")
    }

    /// Syncs until the node has this CPU. Each sync is a status write; their number depends on the delay of the
    /// webhook's watch.
    async fn becomes(&mut self, node: &str, cpu: &str) -> Node {
        let mut written = None;
        until(&format!("{node} has {cpu} CPUs"), async || {
            allocatable(written.insert(self.sync(node).await), "cpu") == cpu
        })
        .await;
        written.expect("a write")
    }

    /// Versions of the ConfigMap with this result.
    async fn versions(&self, result: &str) -> u64 {
        count(&self.webhook, &format!("{VERSIONS}{{result=\"{result}\"}}")).await
    }

    /// Output of the command line for a node.
    async fn page(&self, node: &str) -> String {
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
            .args(["explain", node]);
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.expect("join").expect("run it");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

async fn annotate(stand: &Stand, node: &str, metadata: &Value) {
    let nodes: Api<Node> = Api::all(stand.client.clone());
    nodes
        .patch(
            node,
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": metadata})),
        )
        .await
        .expect("patch the node");
}

/// A document whose entry for the pool `batch` has these members.
fn batch(members: &Value) -> String {
    let mut entry = json!({"name": "batch", "nodeSelector": {"matchLabels": {"pool": "batch"}}});
    let own = members.as_object().expect("members").clone();
    entry.as_object_mut().expect("an entry").extend(own);
    json!({"nodeConfigs": [entry]}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_entry_applies_to_selected_nodes_and_changes_at_runtime() {
    let mut site = PolicySite::start().await;

    site.configure(&batch(&json!({"staticMax": {"cpu": 2}}))).await;
    site.becomes("n1", "8").await;
    assert_eq!(allocatable(&site.sync("n2").await, "cpu"), "12");
    let page = site.page("n1").await;
    let rules = r#"mode static by default, floor at pod requests, under the ConfigMap's entry "batch""#;
    let verdict = "the ratio annotation exceeds the policy's maximum";
    assert!(
        page.contains(rules) && page.contains("annotation up to 2.00") && page.contains(verdict),
        "{page}"
    );

    // Without a hint `guard` grants nothing.
    site.configure(&batch(&json!({"mode": "guard"}))).await;
    site.becomes("n1", "4").await;
    assert_eq!(allocatable(&site.sync("n2").await, "cpu"), "12");
    let page = site.page("n1").await;
    assert!(
        page.contains(r#"mode guard by the ConfigMap's entry "batch""#),
        "{page}"
    );

    // The annotation on the Node takes precedence.
    annotate(
        &site.stand,
        "n1",
        &json!({"annotations": {names::MODE: "static"}}),
    )
    .await;
    site.becomes("n1", "12").await;
    let page = site.page("n1").await;
    assert!(page.contains("mode static by the node's annotation"), "{page}");
    annotate(&site.stand, "n1", &json!({"annotations": {names::MODE: null}})).await;
    site.becomes("n1", "4").await;

    // Other labels, another policy.
    annotate(&site.stand, "n1", &json!({"labels": {"pool": "web"}})).await;
    site.becomes("n1", "12").await;
    annotate(&site.stand, "n2", &json!({"labels": {"pool": "batch"}})).await;
    site.becomes("n2", "4").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_version_keeps_the_last_good_one_and_deletion_returns_to_the_file() {
    let mut site = PolicySite::start().await;
    site.configure(&batch(&json!({"staticMax": {"cpu": 2}}))).await;
    site.becomes("n1", "8").await;

    let bad = batch(&json!({"mode": "off", "bounds": {"cpu": {"max": 11}}}));
    site.configure(&bad).await;
    until("the version is refused", async || {
        site.versions("refused").await == 1
    })
    .await;
    assert_eq!(allocatable(&site.sync("n1").await, "cpu"), "8");
    let version = site
        .config_maps()
        .get(names::SLO_CONFIG)
        .await
        .expect("the ConfigMap")
        .resource_version()
        .expect("a version");
    let page = site.page("n1").await;
    let refusal = format!(
        "ConfigMap refused: version {version}: nodeConfigs[0].bounds.cpu.max: max 11.00 is outside 1.00..10.00\n"
    );
    assert!(
        page.contains(&refusal) && page.contains("annotation up to 2.00"),
        "{page}"
    );

    // A replica that never received the good version has none: the last decision stays in force.
    site.webhook.process.stop().expect("stop the webhook");
    site.webhook = site.stand.webhook("webhook-1", FILE).await;
    site.stand.register(&site.webhook).await;
    until("the new replica is called", async || {
        site.sync("n1").await;
        count(&site.webhook, "headroom_webhook_decision_reasons_total{").await > 0
    })
    .await;
    let kept = site.becomes("n1", "8").await;
    assert_eq!(
        annotation(&kept, names::RAW_ALLOCATABLE),
        Some(r#"{"cpu":"4","memory":"8Gi"}"#)
    );
    let page = site.page("n1").await;
    assert!(
        page.contains("policy not known") && page.contains("policy-unknown"),
        "{page}"
    );

    site.configure(&batch(&json!({"staticMax": {"cpu": 2.5}}))).await;
    site.becomes("n1", "10").await;
    assert!(!site.page("n1").await.contains("refused"));

    site.config_maps()
        .delete(names::SLO_CONFIG, &DeleteParams::default())
        .await
        .expect("delete the ConfigMap");
    site.becomes("n1", "12").await;
    assert_eq!(site.versions("refused").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_started_without_the_api_server_keeps_the_last_decision() {
    let mut site = PolicySite::start().await;
    site.configure(&batch(&json!({"staticMax": {"cpu": 2}}))).await;
    let stored = site.becomes("n1", "8").await;
    site.webhook.process.stop().expect("stop the webhook");
    site.stand.cluster.stop_apiserver().expect("stop the API server");
    let options = site.stand.webhook_options("webhook-1", FILE);
    let webhook = Webhook::spawn(&options).expect("start the webhook");
    until("the admission port is open", async || {
        TcpStream::connect(webhook.admission).await.is_ok()
    })
    .await;
    let mut admission = Admission::connect(&webhook).await;

    // By the file alone it would be 12.
    let stored = serde_json::to_value(&stored).expect("JSON");
    let mut written = stored.clone();
    written["status"]["allocatable"]["cpu"] = "4".into();
    written["status"]["conditions"][0]["lastHeartbeatTime"] = ready(600)["lastHeartbeatTime"].clone();
    let patch = patch_of(&mut admission, &stored, &written).await;
    let kept = json!({"op": "replace", "path": "/status/allocatable/cpu", "value": "8"});
    assert!(patch.contains(&kept), "{patch:?}");

    // A node that was never amplified stays unchanged, whatever its annotations request.
    written["metadata"]["annotations"] = json!({names::RATIO: RATIO});
    let patch = patch_of(&mut admission, &written, &written).await;
    assert!(patch.is_empty(), "{patch:?}");
}

/// The operations with which a kubelet's write is answered.
async fn patch_of(admission: &mut Admission, stored: &Value, written: &Value) -> Vec<Value> {
    let (_, body) = admission
        .post("/mutate-node-status", &review(stored, written))
        .await;
    let answer: Value = serde_json::from_str(&body).expect("a review");
    answer.pointer("/response/patch").map_or_else(Vec::new, |patch| {
        let ByteString(patch) = serde_json::from_value(patch.clone()).expect("base64");
        serde_json::from_slice(&patch).expect("operations")
    })
}
