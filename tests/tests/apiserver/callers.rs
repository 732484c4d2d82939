//! Tests of what clients of the admission port that are no API server can do: they change no quota of others, and are
//! refused once the API server presents a certificate.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::fs;

use e2e::{
    admission::{Admission, review},
    caller_certificate,
    custom_kinds::QUOTAS,
    namespaces,
    review::ReviewBuilder,
    stand::{AUTO, Stand, until},
};
use headroom_domain::names;
use headroom_testbed::{cluster::ClusterOptions, webhook::GATES};
use headroom_webhook::admission::endpoint::Family;
use http::StatusCode;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};

const TEAM: &str = "team";

/// The review of a kubelet's write that changes nothing.
fn node_review(node: &Node) -> String {
    let node = serde_json::to_value(node).expect("JSON");
    review(&node, &node)
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_without_the_api_servers_certificate_are_refused_once_it_presents_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let stand = Stand::start_with(caller_certificate::create(folder.path())).await;
    let flags = caller_certificate::flags(folder.path());
    let flags = flags.each_ref().map(String::as_str);
    let webhook = stand
        .serving_with("webhook-0", AUTO, &[Family::Nodes], GATES, &flags)
        .await;
    let node = stand.create_node("n1", "8", "8Gi").await;
    let body = node_review(&node);
    let mut attacker = Admission::connect(&webhook).await;
    // An API server that is not set up yet would be such a caller.
    until("another caller is refused", async || {
        // Each write goes through the API server, which presents its certificate.
        let status = json!({"allocatable": {"cpu": "8"}});
        stand
            .patch_as_kubelet("n1", &status)
            .await
            .expect("a write passes");
        let (status, text) = attacker.post("/mutate-node-status", &body).await;
        let is_refused = status == StatusCode::FORBIDDEN;
        assert!(is_refused || status == StatusCode::OK, "{status} {text}");
        is_refused
    })
    .await;
    let log = fs::read_to_string(webhook.process.log()).expect("a log");
    assert!(log.contains("other callers are refused now"), "{log}");
    assert!(!log.contains("the caller has no client certificate"), "{log}");
    let nodes: Api<Node> = Api::all(stand.client.clone());
    let patch = json!({"metadata": {"annotations": {names::MODE: "no-mode"}}});
    let refused = nodes
        .patch(
            "n1",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(&patch),
        )
        .await;
    let error = refused
        .expect_err("reviews of the API server are answered")
        .to_string();
    assert!(error.contains("no-mode"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn probe_of_the_replica_proves_the_api_servers_certificate_without_any_other_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let stand = Stand::start_with(caller_certificate::create(folder.path())).await;
    let flags = caller_certificate::flags(folder.path());
    let flags = flags.each_ref().map(String::as_str);
    let node = stand.create_node("n1", "8", "8Gi").await;
    let webhook = stand
        .serving_with("webhook-0", AUTO, &[Family::Nodes], GATES, &flags)
        .await;
    let mut attacker = Admission::connect(&webhook).await;
    until("another caller is refused", async || {
        let (status, _) = attacker.post("/mutate-node-status", &node_review(&node)).await;
        status == StatusCode::FORBIDDEN
    })
    .await;
}

fn quota(max: u32) -> Value {
    json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "lab", "namespace": TEAM}, "spec": {"max": {"cpu": max}},
    })
}

fn pod(name: &str, cpus: u32) -> Pod {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpus.to_string()}}});
    let pod = json!({
        "metadata": {"name": name, "namespace": TEAM, "labels": {names::QUOTA_NAME: "lab"}},
        "spec": {"containers": [container], "automountServiceAccountToken": false},
    });
    serde_json::from_value(pod).expect("a pod")
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_review_of_a_quota_refuses_no_pod() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    stand.install_kinds().await;
    let pods = namespaces::create(&stand, TEAM).await;
    let gates = format!("{GATES},EnableQuotaAdmission=true");
    let families = [Family::Nodes, Family::Koordinator];
    let webhook = stand.serving("webhook-0", AUTO, &families, &gates).await;
    let stored: DynamicObject = serde_json::from_value(quota(10)).expect("a quota");
    let quotas = QUOTAS.api(&stand, TEAM);
    until("the quota is created", async || {
        quotas.create(&PostParams::default(), &stored).await.is_ok() || quotas.get("lab").await.is_ok()
    })
    .await;
    let too_large = pod("too-large", 11);
    until("pods are compared with the quota", async || {
        let refused = pods.create(&PostParams::default(), &too_large).await;
        refused.is_err_and(|error| error.to_string().contains("exceeded quota: "))
    })
    .await;
    let stored = quotas.get("lab").await.expect("the quota");
    let stored = serde_json::to_value(stored).expect("JSON");
    let mut forged = stored.clone();
    forged["spec"]["max"]["cpu"] = "0".into();
    let mut attacker = Admission::connect(&webhook).await;
    let update = ReviewBuilder::update("elasticquotas", &stored, &forged).build();
    let (status, text) = attacker
        .post("/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", &update)
        .await;
    assert!(
        status == StatusCode::OK && text.contains("\"allowed\":true"),
        "{status} {text}"
    );
    let created = pods.create(&PostParams::default(), &pod("fits", 10)).await;
    created.expect("the stored quota counts");
}
