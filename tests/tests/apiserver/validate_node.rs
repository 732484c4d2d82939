//! Tests of the checks of Node writes on a real API server: labels against the entries of Koordinator's ConfigMap, and
//! annotations, by the webhook and by the policy without it.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "tests panic: a returned error has no stack; a story is read in one go"
)]

use e2e::stand::{Stand, allocatable, annotation, count, ready, until};
use headroom_domain::names;
use headroom_testbed::{accounts, policies};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::Status,
};
use serde_json::{Value, json};

const CONFLICTS: &str = "headroom_webhook_conflicting_nodes{config=\"colocation-config\"}";

fn dry_run() -> PatchParams {
    PatchParams {
        dry_run: true,
        ..PatchParams::default()
    }
}

/// A merge PATCH of a Node's metadata.
async fn patch(client: &Client, name: &str, params: &PatchParams, metadata: &Value) -> Result<Node, Status> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"metadata": metadata}));
    nodes.patch(name, params, &patch).await.map_err(refusal)
}

/// Refusal of the API server.
fn refusal(error: kube::Error) -> Status {
    let text = error.to_string();
    let kube::Error::Api(status) = error else {
        panic!("{text}");
    };
    *status
}

/// Entries a and b of the colocation key, for the nodes with label x and y.
async fn configure(stand: &Stand, labels: &[&str]) {
    let entries: Value = labels
        .iter()
        .map(|label| json!({"name": label, "nodeSelector": {"matchLabels": {*label: "1"}}}))
        .collect();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": names::SLO_CONFIG},
        "data": {names::COLOCATION_CONFIG: json!({"nodeConfigs": entries}).to_string()},
    });
    let maps: Api<ConfigMap> = Api::namespaced(stand.client.clone(), names::SLO_CONFIG_NAMESPACE);
    maps.patch(
        names::SLO_CONFIG,
        &PatchParams::apply("tests").force(),
        &Patch::Apply(&object),
    )
    .await
    .expect("apply the ConfigMap");
}

#[tokio::test(flavor = "multi_thread")]
async fn label_that_makes_two_entries_select_a_node_is_refused_with_koordinators_text() {
    let stand = Stand::start().await;
    accounts::create_namespace(&stand.client, names::SLO_CONFIG_NAMESPACE)
        .await
        .expect("the namespace");
    configure(&stand, &["x", "y"]).await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    stand.create_node("n1", "4", "8Gi").await;
    let metadata = json!({"labels": {"x": "1"}});
    patch(&stand.client, "n1", &PatchParams::default(), &metadata)
        .await
        .expect("one entry");

    let second = json!({"labels": {"y": "1"}});
    until("a second entry is refused", async || {
        patch(&stand.client, "n1", &dry_run(), &second).await.is_err()
    })
    .await;
    let status = patch(&stand.client, "n1", &PatchParams::default(), &second)
        .await
        .expect_err("refused");
    let expected = r#"admission webhook "vnode.koordinator.sh" denied the request: ___{"reason":"ExistNodeConfict","message":{"config":"colocation-config","strategies":["x","y"],"exampleNodes":["n1"]}}___"#;
    assert_eq!((status.code, status.message.as_str()), (400, expected));

    // A new node is let in, and counted; it can be given other labels, and the label that is too many taken away.
    let node = json!({"metadata": {"name": "n2", "labels": {"x": "1", "y": "1"}}});
    let nodes: Api<Node> = Api::all(stand.client.clone());
    nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).expect("a Node"),
        )
        .await
        .expect("let in");
    until("it is counted", async || count(&webhook, CONFLICTS).await == 1).await;
    for labels in [json!({"z": "1"}), json!({"x": null})] {
        patch(
            &stand.client,
            "n2",
            &PatchParams::default(),
            &json!({"labels": labels}),
        )
        .await
        .expect("does not add to the conflict");
    }
    until("none is left", async || count(&webhook, CONFLICTS).await == 0).await;

    // The entries change while we run.
    configure(&stand, &["x"]).await;
    until("one entry alone cannot conflict", async || {
        patch(&stand.client, "n1", &dry_run(), &second).await.is_ok()
    })
    .await;
    patch(&stand.client, "n1", &PatchParams::default(), &second)
        .await
        .expect("allowed");
    configure(&stand, &["x", "y"]).await;
    until("the ConfigMap has brought it about", async || {
        count(&webhook, CONFLICTS).await == 1
    })
    .await;
}

/// Values of an annotation that the webhook takes, and those that it refuses.
const TAKEN: [(&str, &str); 12] = [
    (names::RATIO, r#"{"cpu":1.5}"#),
    (names::RATIO, r#" { "cpu" : 1.5e0 , "memory":1.25,"gpu":7 } "#),
    (names::RATIO, r#"{"cpu":5,"memory":5.00}"#),
    (names::RATIO, r#"{"cpu":0.5}"#),
    (names::RATIO, r#"{"cpu":null}"#),
    (names::RATIO, "{}"),
    (names::RATIO, "null"),
    (names::RATIO, ""),
    (names::MODE, "off"),
    (names::MODE, "static"),
    (names::MODE, "guard"),
    (names::MODE, "auto"),
];
const REFUSED: [(&str, &str); 15] = [
    (names::RATIO, "cpu=1.5"),
    (names::RATIO, " "),
    (names::RATIO, "[]"),
    (names::RATIO, "1.5"),
    (names::RATIO, r#"{"cpu":"1.5"}"#),
    (names::RATIO, r#"{"cpu":1.5,}"#),
    (names::RATIO, r#"{"cpu":01}"#),
    (names::RATIO, r#"{"cpu":1e400}"#),
    (names::RATIO, r#"{"cpu":NaN}"#),
    (names::RATIO, r#"{"cpu":-2}"#),
    (names::RATIO, r#"{"cpu":5.01}"#),
    (names::RATIO, r#"{"memory": 6e0}"#),
    (names::RATIO, r#"{"gpu":true}"#),
    (names::MODE, "Auto"),
    (names::MODE, ""),
];

/// The checks and the webhook must give the same verdict on each value.
async fn annotation_values_are_accepted_or_refused(stand: &Stand) {
    let tried = async |(key, value): (&str, &str)| {
        let metadata = json!({"annotations": {key: value}});
        patch(&stand.client, "n1", &dry_run(), &metadata).await
    };
    for taken in TAKEN {
        let answer = tried(taken).await;
        assert!(answer.is_ok(), "{taken:?}: {answer:?}");
    }
    for (key, value) in REFUSED {
        let answer = tried((key, value)).await.expect_err(value);
        assert_eq!(answer.code, 403, "{answer:?}");
        let field = format!("metadata.annotations[{key}]: ");
        assert!(answer.message.contains(&field), "{value}: {}", answer.message);
    }
}

/// A node's own credential may write its own annotations to the Node, and none of ours.
async fn kubelets_are_refused(stand: &Stand) {
    let kubelet = stand
        .cluster
        .client_for_node("n1")
        .await
        .expect("the node's client");
    let own = json!({"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}});
    patch(&kubelet, "n1", &dry_run(), &own).await.expect("its own");
    for (key, value) in [
        (names::RATIO, json!(r#"{"cpu":1.1}"#)),
        (names::MODE, json!("off")),
        (names::MODE, Value::Null),
        (names::RAW_ALLOCATABLE, json!(r#"{"cpu":"1"}"#)),
        (names::MARKER, Value::Null),
        ("headroom.sh/later", json!("x")),
    ] {
        let metadata = json!({"annotations": {key: value}});
        let answer = patch(&kubelet, "n1", &dry_run(), &metadata).await.expect_err(key);
        assert_eq!(answer.code, 403, "{answer:?}");
        let field = format!("metadata.annotations[{key}]: ");
        assert!(
            answer.message.contains(&field) && answer.message.contains("own credential"),
            "{}",
            answer.message
        );
    }
}

/// A number in base 36: all annotations together have at most 256 KiB.
fn in_few_letters(number: u32) -> String {
    let digits = [
        number / 46_656,
        number / 1_296 % 36,
        number / 36 % 36,
        number % 36,
    ];
    let letters = digits.into_iter().map(|digit| char::from_digit(digit, 36));
    let text: Option<String> = letters.collect();
    let text = text.expect("digits below 36");
    let short = text.trim_start_matches('0');
    if short.is_empty() { "0" } else { short }.to_owned()
}

/// The attacker may patch nodes and fills a Node with as many annotations as can be stored, so that the checks of the
/// API server exceed their budget.
#[tokio::test(flavor = "multi_thread")]
async fn seventy_thousand_annotations_never_block_mode_off() {
    let stand = Stand::start().await;
    policies::put_checks(&stand.client)
        .await
        .expect("install the checks");
    stand.create_node("n1", "4", "8Gi").await;
    let bad = json!({"annotations": {names::MODE: "Auto"}});
    until("the checks are in force", async || {
        let answer = patch(&stand.client, "n1", &dry_run(), &bad).await;
        answer.is_err_and(|status| status.message.contains(names::CHECKS_POLICY))
    })
    .await;
    let keys = (0..70_000).map(|key| (in_few_letters(key), json!("")));
    let keys: serde_json::Map<_, _> = keys.collect();
    let filled = json!({"annotations": keys});
    let params = PatchParams::default();
    patch(&stand.client, "n1", &params, &filled)
        .await
        .expect("fill it");
    let refused = |key: &str, value: &str| json!({"annotations": {key: value}});
    for refused in [
        refused(names::MODE, "Auto"),
        refused(names::RATIO, r#"{"cpu":9}"#),
        refused(names::HINT, "{}"),
    ] {
        let answer = patch(&stand.client, "n1", &dry_run(), &refused).await;
        let message = answer.expect_err("refused").message;
        assert!(
            message.contains(names::CHECKS_POLICY) && message.contains("metadata.annotations["),
            "{message}"
        );
    }
    let off = json!({"annotations": {names::MODE: "off"}});
    patch(&stand.client, "n1", &params, &off)
        .await
        .expect("switch it off");

    // With a webhook too, and by the command line.
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    let on = json!({"annotations": {names::MODE: "static", names::RATIO: r#"{"cpu":1.5}"#}});
    patch(&stand.client, "n1", &params, &on)
        .await
        .expect("switch it on");
    stand
        .node_until("n1", "amplified", |node| allocatable(node, "cpu") == "6")
        .await;
    patch(&stand.client, "n1", &params, &off)
        .await
        .expect("switch it off again");
    stand
        .node_until("n1", "raw", |node| allocatable(node, "cpu") == "4")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_and_checks_refuse_the_same_values_and_no_status_write() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.create_node("n1", "4", "8Gi").await;
    let ratio = json!({"annotations": {names::RATIO: r#"{"cpu":1.5}"#, names::MODE: "static"}});
    patch(&stand.client, "n1", &PatchParams::default(), &ratio)
        .await
        .expect("a ratio");
    // Stored while no check was in force.
    stand.create_node("n2", "4", "8Gi").await;
    let bad = json!({"annotations": {names::RATIO: "x", names::MODE: "x"}});
    patch(&stand.client, "n2", &PatchParams::default(), &bad)
        .await
        .expect("no check is in force");
    stand.register(&webhook).await;
    stand
        .node_until("n1", "amplified", |node| allocatable(node, "cpu") == "6")
        .await;
    annotation_values_are_accepted_or_refused(&stand).await;
    kubelets_are_refused(&stand).await;

    policies::put_checks(&stand.client)
        .await
        .expect("install the checks");
    // The message identifies the author: the webhook's contains "invalid value", the policy's contains the policy's
    // name.
    let bad = json!({"annotations": {names::MODE: "Auto"}});
    until("the checks are in force", async || {
        let answer = patch(&stand.client, "n1", &dry_run(), &bad)
            .await
            .expect_err("refused");
        answer.message.contains(names::CHECKS_POLICY)
    })
    .await;

    // The kubelet's own write, in which our webhook changes annotations that the kubelet may not: every one passes.
    for (heartbeat, cpu) in [(10, "4"), (20, "3"), (30, "4")] {
        let status = json!({"allocatable": {"cpu": cpu}, "conditions": [ready(heartbeat)]});
        let node = stand
            .patch_as_kubelet("n1", &status)
            .await
            .expect("a status write passes");
        let raw = format!(r#"{{"cpu":"{cpu}","memory":"8Gi"}}"#);
        assert_eq!(annotation(&node, names::RAW_ALLOCATABLE), Some(raw.as_str()));
    }
    // A kubelet that tries to write them also passes, without effect.
    let kubelet: Api<Node> = Api::all(
        stand
            .cluster
            .client_for_node("n1")
            .await
            .expect("the node's client"),
    );
    let status = json!({"metadata": {"annotations": {names::MODE: "off"}}});
    let node = kubelet
        .patch_status("n1", &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("a status write passes");
    assert_eq!(annotation(&node, names::MODE), Some("static"));

    // The checks alone refuse the same values as the webhook did.
    drop(webhook);
    until("the webhook has stopped", async || {
        let answer = patch(&stand.client, "n1", &dry_run(), &bad)
            .await
            .expect_err("refused");
        !answer.message.contains("vnode.koordinator.sh")
    })
    .await;
    annotation_values_are_accepted_or_refused(&stand).await;
    kubelets_are_refused(&stand).await;
    let status = json!({"allocatable": {"cpu": "2"}, "conditions": [ready(40)]});
    stand
        .patch_as_kubelet("n1", &status)
        .await
        .expect("a status write passes");

    // A bad value that is stored already does not get in the way of another.
    let label = json!({"labels": {"z": "1"}, "annotations": {"other": "x"}});
    patch(&stand.client, "n2", &PatchParams::default(), &label)
        .await
        .expect("nothing of ours");
}
