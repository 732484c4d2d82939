//! `kubectl headroom pod explain` on a real API server: a pod is created and explained, one without a name before it gets one, one
//! that is refused, and one in a file.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::fs;

use e2e::{
    custom_kinds::PROFILES,
    namespaces,
    stand::{Stand, until},
};
use headroom_testbed::{accounts, cluster::ClusterOptions, webhook::GATES};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::{core::v1::Pod, scheduling::v1::PriorityClass};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::cli::Cli;

const TEAM: &str = "team";

fn pod(metadata: &Value) -> Pod {
    let container =
        json!({"name": "main", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [container]}})).expect("a pod")
}

async fn create(pods: &Api<Pod>, metadata: &Value) -> kube::Result<Pod> {
    pods.create(&PostParams::default(), &pod(metadata)).await
}

/// The values that a decision has at a path, with who wrote them.
fn written(decision: &Value, path: &str) -> Vec<(Value, Value)> {
    let writes = decision["writes"].as_array().expect("writes").iter();
    let found = writes.filter(|write| write["path"] == path);
    found
        .map(|write| (write["value"].clone(), write["by"].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_created_is_explained() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let pods = namespaces::create(&stand, TEAM).await;
    PROFILES.install(&stand).await;
    let class = json!({"metadata": {"name": "koord-batch"}, "value": 5_000});
    let class: PriorityClass = serde_json::from_value(class).expect("a class");
    let classes: Api<PriorityClass> = Api::all(stand.client.clone());
    classes
        .create(&PostParams::default(), &class)
        .await
        .expect("a class");
    let selector = json!({"matchLabels": {"app": "web"}});
    let batch = json!({"selector": selector, "qosClass": "BE", "priorityClassName": "koord-batch", "labels": {"mutated": "yes"}});
    PROFILES.create(&stand, "", "batch", &batch).await;
    let other = json!({"namespaceSelector": {"matchLabels": {"env": "production"}}});
    PROFILES.create(&stand, "", "production", &other).await;
    let families = [Family::Nodes, Family::Koordinator];
    let webhook = stand.serving("webhook-0", "{}", &families, GATES).await;
    until("pods reach the webhook", async || {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let created = pods
            .create(&dry, &pod(&json!({"name": "probe", "labels": {"app": "web"}})))
            .await;
        created
            .expect("a dry run")
            .metadata
            .labels
            .expect("labels")
            .contains_key("mutated")
    })
    .await;
    let token = accounts::debug_token(&stand.client).await.expect("a token");
    let cli = Cli::new(&stand, &webhook, "person", &token);

    create(&pods, &json!({"name": "web-0", "labels": {"app": "web"}}))
        .await
        .expect("a pod");
    let explained = cli.ask_json(&["pod", "explain", "team/web-0"]).await;
    let decisions = explained["decisions"].as_array().expect("decisions");
    let [validated, mutated] = decisions.as_slice() else {
        panic!("{explained:#}");
    };
    assert_eq!(
        (&validated["endpoint"], &validated["outcome"]),
        (&json!("validate-pod"), &json!("allowed"))
    );
    let profiles = json!([
        {"name": "batch", "result": "applied", "reason": ""},
        {
            "name": "production", "result": "other-namespace",
            "reason": "spec.namespaceSelector: label \"env\" is absent and must be \"production\"",
        },
    ]);
    assert_eq!(mutated["profiles"], profiles);
    assert_eq!(
        written(mutated, "metadata.labels.mutated"),
        [(json!("\"yes\""), json!("profile batch"))]
    );
    let cpu = "spec.containers[0].resources.requests[kubernetes.io/batch-cpu]";
    assert_eq!(
        written(mutated, cpu),
        [(json!("\"1k\""), json!("translation of cpu and memory"))]
    );

    // A dry run is told from what was stored, and a pod is found by the name that it got later.
    let probe = cli.ask(&["pod", "explain", "team/probe"]).await;
    assert!(probe.contains("mutate-pod CREATE: allowed, dry run"), "{probe}");
    let created = create(&pods, &json!({"generateName": "named-", "labels": {"app": "db"}})).await;
    let name = created.expect("a pod").metadata.name.expect("a name");
    let text = cli.ask(&["pod", "explain", &format!("team/{name}")]).await;
    assert!(
        text.contains("another whose name begins with \"named-\""),
        "{text}"
    );
    assert!(
        text.contains("spec.selector: label \"app\" is \"db\" and must be \"web\""),
        "{text}"
    );

    // What is refused says why.
    let wrong = json!({"name": "wrong", "labels": {"koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-batch"}});
    create(&pods, &wrong).await.expect_err("a refusal");
    let refused = cli.ask_json(&["pod", "explain", "team/wrong"]).await;
    assert_eq!(refused["decisions"][0]["outcome"], "denied");
    let reasons = refused["decisions"][0]["reasons"].to_string();
    assert!(reasons.contains("koordinator.sh/qosClass"), "{reasons}");

    let (code, reason) = cli.fail(&["pod", "explain", "team/nobody"]).await;
    assert_eq!(code, Some(1));
    assert!(
        reason.starts_with("error: no review of pod team/nobody is kept by the webhook: replica "),
        "{reason}"
    );
}
