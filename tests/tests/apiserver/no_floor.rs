//! Tests of the webhook on an API server without the floor: its policies are deleted or changed, or their kind is not
//! served. Nothing rises until the floor is back or its absence accepted, and nothing falls at once.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{fs, process::Command};

use e2e::{
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, Stand, allocatable, count, ready, until},
};
use headroom_domain::names;
use headroom_proto::v1alpha1::Verdict;
use headroom_testbed::{accounts, agent::write_secret, cluster::ClusterOptions, policies, webhook::Webhook};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding},
    core::v1::Node,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

/// Node n1 of 4 CPUs in `auto`, its agent, and a webhook without flags about the floor.
struct NoFloorSite {
    stand: Stand,
    webhook: Webhook,
    agent: ScriptedAgent,
    node: Node,
    sent: u64,
    heartbeat: u32,
}

impl NoFloorSite {
    async fn start(stand: Stand) -> Self {
        let options = stand.webhook_options("webhook-0", AUTO).requires_floor();
        let webhook = Webhook::start(&options).await.expect("start the webhook");
        stand.register(&webhook).await;
        let node = stand.create_node("n1", "4", "8Gi").await;
        let agent = stream(&stand, &webhook, &node).await;
        Self {
            stand,
            webhook,
            agent,
            node,
            sent: 0,
            heartbeat: 0,
        }
    }

    /// Reports a ratio; the webhook uses it when this returns.
    async fn report(&mut self, cents: u32) {
        self.sent += 1;
        let uid = self.node.uid().expect("a UID");
        let report = hint("n1", &uid, self.sent, cents);
        let ack = self.agent.report(&report).await.expect("an acknowledgement");
        assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
    }

    /// Stored CPU of the node after a status sync of the kubelet, which sends raw.
    async fn sync(&mut self) -> String {
        self.heartbeat += 10;
        let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(self.heartbeat)]});
        let written = self.stand.patch_as_kubelet("n1", &status).await;
        allocatable(&written.expect("a kubelet's write passes"), "cpu")
    }

    async fn rises_to(&self, cpu: &str) {
        self.stand
            .node_until("n1", "raised without its kubelet", |node| {
                allocatable(node, "cpu") == cpu
            })
            .await;
    }

    /// Waits until the webhook reports whether a policy is in force.
    async fn policy_is(&self, policy: &str, number: &str) {
        let line = format!("headroom_webhook_policy_in_force{{policy=\"{policy}\"}} {number}");
        until(&line, async || {
            let (_, body) = headroom_testbed::programs::get(self.webhook.admin, "/metrics")
                .await
                .expect("metrics");
            String::from_utf8_lossy(&body).lines().any(|found| found == line)
        })
        .await;
    }

    fn log(&self) -> String {
        fs::read_to_string(self.stand.cluster.dir().join("webhook-0.log")).expect("the log")
    }

    /// Output of `kubectl headroom top`.
    async fn top(&self) -> String {
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
            .args(["top", "--once"]);
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.expect("join").expect("run it");
        String::from_utf8(output.stdout).expect("text")
    }
}

async fn stream(stand: &Stand, webhook: &Webhook, node: &Node) -> ScriptedAgent {
    let token = stand.agent_token(node).await;
    let mut agent = ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&token))
        .await
        .expect("a stream");
    agent
        .pods_until(|_| true)
        .await
        .expect("the server's list of pods");
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_floor_is_reported_and_blocks_rises_until_restored() {
    let stand = Stand::start().await;
    policies::install(&stand.client)
        .await
        .expect("install the policies");
    let mut site = NoFloorSite::start(stand).await;
    for policy in [names::FLOOR_POLICY, names::ANNOTATIONS_POLICY] {
        site.policy_is(policy, "1").await;
    }
    assert!(!site.top().await.contains("no floor"));
    site.report(104).await;
    site.rises_to("4160m").await;

    let bindings: Api<MutatingAdmissionPolicyBinding> = Api::all(site.stand.client.clone());
    bindings
        .delete(names::FLOOR_POLICY, &DeleteParams::default())
        .await
        .expect("delete the binding");
    site.policy_is(names::FLOOR_POLICY, "0").await;
    site.policy_is(names::ANNOTATIONS_POLICY, "1").await;
    assert!(
        site.log()
            .contains("no floor: policy headroom-floor or its binding is not installed")
    );
    until("top reports that there is no floor", async || {
        site.top().await.contains("no floor: policy headroom-floor")
    })
    .await;
    // The amplified value stays, rises are blocked, and lower values are applied at once.
    site.report(106).await;
    assert_eq!(site.sync().await, "4160m");
    site.report(102).await;
    site.stand
        .node_until("n1", "lowered", |node| allocatable(node, "cpu") == "4080m")
        .await;
    site.report(105).await;
    assert_eq!(site.sync().await, "4080m");

    policies::install(&site.stand.client)
        .await
        .expect("install the policies");
    site.policy_is(names::FLOOR_POLICY, "1").await;
    site.rises_to("4200m").await;
    assert!(!site.top().await.contains("no floor"));
}

/// A JSON patch of one field.
fn replaces(path: &str, value: &Value) -> Patch<()> {
    let operations = json!([{"op": "add", "path": path, "value": value}]);
    Patch::Json(serde_json::from_value(operations).expect("a JSON patch"))
}

#[tokio::test(flavor = "multi_thread")]
async fn modified_floor_is_reported_by_field_and_blocks_rises() {
    let stand = Stand::start().await;
    policies::install(&stand.client)
        .await
        .expect("install the policies");
    let mut site = NoFloorSite::start(stand).await;
    site.policy_is(names::FLOOR_POLICY, "1").await;
    site.report(104).await;
    site.rises_to("4160m").await;

    let floors: Api<MutatingAdmissionPolicy> = Api::all(site.stand.client.clone());
    let bindings: Api<MutatingAdmissionPolicyBinding> = Api::all(site.stand.client.clone());
    let mut stored = "4160m".to_owned();
    for (cents, path, value, finding) in [
        (
            105,
            "/spec/mutations/0/jsonPatch/expression",
            json!("false ? [JSONPatch{op: 'remove', path: '/x'}] : []"),
            "MutatingAdmissionPolicy.spec.mutations[0].jsonPatch.expression is \"false ? ",
        ),
        (
            106,
            "/spec/matchConditions/-",
            json!({"name": "never", "expression": "false"}),
            "MutatingAdmissionPolicy.spec.matchConditions[",
        ),
        (
            107,
            "/spec/policyName",
            json!("another"),
            "MutatingAdmissionPolicyBinding.spec.policyName is \"another\", must be \"headroom-floor\"",
        ),
    ] {
        let params = PatchParams::default();
        let patch = replaces(path, &value);
        let patched = if path == "/spec/policyName" {
            bindings
                .patch(names::FLOOR_POLICY, &params, &patch)
                .await
                .map(drop)
        } else {
            floors.patch(names::FLOOR_POLICY, &params, &patch).await.map(drop)
        };
        patched.expect("change the floor");
        site.policy_is(names::FLOOR_POLICY, "0").await;
        assert!(site.log().contains(finding), "{finding} is not in {}", site.log());
        assert!(site.top().await.contains("is not that of this version"));
        site.report(cents).await;
        assert_eq!(site.sync().await, stored);

        // Server-side apply keeps the additions of other clients.
        let deleted = floors.delete(names::FLOOR_POLICY, &DeleteParams::default()).await;
        deleted.expect("delete the policy");
        policies::install(&site.stand.client)
            .await
            .expect("install the policies");
        site.policy_is(names::FLOOR_POLICY, "1").await;
        stored = format!("{}m", cents * 40);
        site.rises_to(&stored).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_without_policies_is_reported_and_blocks_rises_unless_accepted() {
    let options = ClusterOptions {
        apiserver_flags: vec![
            "--runtime-config=admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false,admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings=false".to_owned(),
            // It would wait for the kind for ever, and all writes with it.
            "--disable-admission-plugins=MutatingAdmissionPolicy".to_owned(),
        ],
        ..ClusterOptions::default()
    };
    let mut site = NoFloorSite::start(Stand::start_with(options).await).await;
    site.policy_is(names::FLOOR_POLICY, "0").await;
    until("the log contains the reason", async || {
        site.log()
            .contains("the API server does not serve MutatingAdmissionPolicy")
    })
    .await;
    // Findings are of the last check, which includes whether the API server calls us.
    until("top reports that nothing rises", async || {
        let top = site.top().await;
        top.contains("raise nothing until it is in force or --accept-no-floor is given")
    })
    .await;
    site.report(104).await;
    assert_eq!(site.sync().await, "4");

    site.webhook.process.stop().expect("stop the webhook");
    let accepting = site.stand.webhook("webhook-1", AUTO).await;
    site.stand.register(&accepting).await;
    site.agent = stream(&site.stand, &accepting, &site.node).await;
    site.webhook = accepting;
    site.report(104).await;
    site.rises_to("4160m").await;
    until("top reports that it is accepted", async || {
        site.top().await.contains("accepted by --accept-no-floor")
    })
    .await;
    let raises = "headroom_webhook_nudges_total{direction=\"rise\",result=\"applied\"}";
    assert!(count(&site.webhook, raises).await > 0);
}
