//! Tests of `kubectl headroom quota` on a real API server: the tree with the usage of pods, a quota, a pod, and the
//! Event about a quota whose pods request more than its limit.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use e2e::{
    console,
    custom_kinds::QUOTAS,
    namespaces,
    stand::{Stand, count, until},
};
use headroom_domain::names;
use headroom_testbed::{
    accounts,
    cluster::ClusterOptions,
    webhook::{GATES, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::cli::Cli;

const TEAM: &str = "team";

/// Cluster with two quotas and a pod, and a command for a user with the viewer role.
struct Shown {
    stand: Stand,
    pods: Api<Pod>,
    cli: Cli,
    webhook: Webhook,
}

impl Shown {
    async fn start() -> Self {
        let stand = Stand::start_with(ClusterOptions::default()).await;
        stand.install_kinds().await;
        let pods = namespaces::create(&stand, TEAM).await;
        let families = [Family::Nodes, Family::Koordinator];
        let gates = format!("{GATES},EnableQuotaAdmission=true");
        let webhook = stand.serving("webhook-0", "{}", &families, &gates).await;
        let token = accounts::debug_token(&stand.client).await.expect("a token");
        let cli = Cli::new(&stand, &webhook, "person", &token);
        Self {
            stand,
            pods,
            cli,
            webhook,
        }
    }

    async fn create_quota(&self, name: &str, labels: &Value) {
        let quota = json!({
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": name, "labels": labels}, "spec": {"min": {"cpu": 2}, "max": {"cpu": 4}},
        });
        let quota: DynamicObject = serde_json::from_value(quota).expect("a quota");
        let quotas = QUOTAS.api(&self.stand, TEAM);
        until("the quota is created", async || {
            quotas.create(&PostParams::default(), &quota).await.is_ok() || quotas.get(name).await.is_ok()
        })
        .await;
    }
}

fn pod(name: &str, cpus: u32) -> Pod {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpus}}});
    let pod = json!({
        "metadata": {"name": name, "labels": {names::QUOTA_NAME: "lab"}},
        "spec": {"containers": [container], "automountServiceAccountToken": false},
    });
    serde_json::from_value(pod).expect("a pod")
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_output_equals_admission_results() {
    let shown = Shown::start().await;
    shown
        .create_quota("dept", &json!({names::QUOTA_IS_PARENT: "true"}))
        .await;
    shown
        .create_quota("lab", &json!({names::QUOTA_PARENT: "dept"}))
        .await;
    let Shown { pods, cli, .. } = &shown;
    let created = pods.create(&PostParams::default(), &pod("one", 3)).await;
    created.expect("a pod");

    until("the pod is among those of its quota", async || {
        let tree = cli.ask_json(&["quota", "tree"]).await;
        let lab = &tree["quotas"][1];
        lab["name"] == "lab" && lab["pods"] == 1 && lab["resources"][0]["left"] == "1"
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let shell = cli.shell(folder.path(), shown.stand.cluster.kubeconfig()).await;
    let commands = console::page_commands("docs/koordinator.md", "kubectl headroom quota ");
    let [tree, lab] = commands.as_slice() else {
        panic!("{commands:#?}")
    };
    let tree = shell.printed(tree).await;
    assert!(tree.contains("└─ lab") && tree.contains("refuses"), "{tree}");
    let lab = shell.printed(lab).await;
    assert!(lab.contains("child of dept") && lab.contains("it fits"), "{lab}");
    let one = cli.ask_json(&["quota", "explain", "pod/team/one"]).await;
    let answer = &one["replicas"][0]["answer"];
    assert_eq!(
        (&answer["quota"], &answer["rule"], &answer["requested"]["cpu"]),
        (&json!("lab"), &json!("label"), &json!("3"))
    );
    // Admission gives the same result.
    let refused = pods.create(&PostParams::default(), &pod("two", 2)).await;
    let text = refused.expect_err("there is room for one CPU").to_string();
    assert!(text.contains("exceeded quota: team/lab"), "{text}");

    above_its_limit(&shown).await;
}

/// The quota's max falls below its pod's request.
async fn above_its_limit(shown: &Shown) {
    let Shown {
        stand, webhook, cli, ..
    } = shown;
    let lowered = Patch::Merge(json!({"spec": {"min": {"cpu": 1}, "max": {"cpu": 2}}}));
    let quotas = QUOTAS.api(stand, TEAM);
    let patched = quotas.patch("lab", &PatchParams::default(), &lowered).await;
    patched.expect("max may go below what is used");
    let events: Api<Event> = Api::namespaced(stand.client.clone(), TEAM);
    let of_quota = ListParams::default().fields("involvedObject.kind=ElasticQuota,involvedObject.name=lab");
    until("the Event is there", async || {
        let found = events.list(&of_quota).await.expect("a list of Events").items;
        let is_one = |event: &Event| {
            let note = event.message.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some("QuotaAboveLimit") && note.contains("cpu")
        };
        found.len() == 1 && found.iter().all(is_one)
    })
    .await;
    assert_eq!(count(webhook, "headroom_webhook_quotas_above_limit").await, 1);
    assert_eq!(count(webhook, "headroom_webhook_quota_overshoots_total").await, 1);
    let tree = cli.ask_json(&["quota", "tree", "lab"]).await;
    assert_eq!(tree["quotas"][0]["resources"][0]["left"], "-1");
}
