//! Tests of switching amplification off on a real API server: nodes return to raw, full ones once their pods leave, by
//! `kubectl headroom off`, by feature gates and by mode `off`.
#![expect(
    clippy::expect_used,
    clippy::too_many_lines,
    reason = "tests panic: a returned error has no stack; a story is read in one go"
)]

use std::{path::Path, process::Command};

use e2e::stand::{Stand, allocatable, annotation, ready, until};
use headroom_domain::names;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::slo_config::Kubectl;

const NODES: [&str; 3] = ["n1", "n2", "full"];
/// Every annotation of ours but the mode.
const TRACES: [&str; 4] = [
    names::MARKER,
    names::RAW_ALLOCATABLE,
    names::HINT,
    names::STATIC_RATIO,
];

/// Result of a run of the command line.
struct Ran {
    code: Option<i32>,
    lines: Vec<Value>,
    stderr: String,
}

/// Three nodes of 4 CPUs that a webhook has amplified to 6, one of them with 5 CPUs bound to it.
async fn amplified(stand: &Stand) {
    for name in NODES {
        stand.create_node(name, "4", "8Gi").await;
        annotate(stand, name, &json!({names::RATIO: r#"{"cpu":1.5}"#})).await;
    }
    for name in NODES {
        stand
            .node_until(name, "amplified", |node| allocatable(node, "cpu") == "6")
            .await;
    }
    let account = json!({"metadata": {"name": "default"}});
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::default_namespaced(stand.client.clone());
    let account = serde_json::from_value(account).expect("an account");
    accounts
        .create(&PostParams::default(), &account)
        .await
        .expect("the account of pods");
    let pod = json!({
        "metadata": {"name": "large"},
        "spec": {
            "nodeName": "full",
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "5"}}}],
        },
    });
    pods(stand)
        .create(
            &PostParams::default(),
            &serde_json::from_value(pod).expect("a pod"),
        )
        .await
        .expect("create the pod");
}

fn pods(stand: &Stand) -> Api<Pod> {
    Api::default_namespaced(stand.client.clone())
}

async fn remove_the_pod(stand: &Stand) {
    let at_once = DeleteParams::default().grace_period(0);
    pods(stand)
        .delete("large", &at_once)
        .await
        .expect("delete the pod");
}

async fn annotate(stand: &Stand, name: &str, annotations: &Value) {
    let nodes: Api<Node> = Api::all(stand.client.clone());
    let patch = json!({"metadata": {"annotations": annotations}});
    nodes
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("annotate the node");
}

async fn read(stand: &Stand, name: &str) -> Node {
    let nodes: Api<Node> = Api::all(stand.client.clone());
    nodes.get(name).await.expect("read the node")
}

fn is_raw(node: &Node) -> bool {
    allocatable(node, "cpu") == "4" && TRACES.iter().all(|key| annotation(node, key).is_none())
}

/// Runs `kubectl headroom off` with the rights of a kubeconfig.
async fn off(stand: &Stand, kubeconfig: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new(&stand.programs.cli);
    command
        .args(["off", "-o", "json"])
        .args(words)
        .env("HEADROOM_KUBECONFIG", kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("join").expect("run it");
    let text = String::from_utf8(output.stdout).expect("text");
    Ran {
        code: output.status.code(),
        lines: text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect(),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// The last line, which contains the result.
fn end(ran: &Ran) -> &Value {
    ran.lines.last().expect("a line")
}

/// Last line about a node.
fn last<'r>(ran: &'r Ran, node: &str) -> &'r str {
    let of_node = ran.lines.iter().rfind(|line| line["node"] == node);
    of_node.expect("an entry for the node")["remains"]
        .as_str()
        .expect("a word")
}

#[tokio::test(flavor = "multi_thread")]
async fn off_restores_every_node_within_seconds_except_over_committed_ones() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    amplified(&stand).await;
    let admin = stand.cluster.kubeconfig().to_owned();
    until("the pod is counted", async || {
        let plan = off(&stand, &admin, &[]).await;
        assert_eq!(plan.code, Some(0), "{}", plan.stderr);
        last(&plan, "full") == "held"
    })
    .await;

    // The plan wrote nothing.
    let plan = off(&stand, &admin, &[]).await;
    assert_eq!((last(&plan, "n1"), plan.lines.len()), ("nothing", 3));
    for name in NODES {
        let node = read(&stand, name).await;
        assert_eq!(
            (allocatable(&node, "cpu").as_str(), annotation(&node, names::MODE)),
            ("6", None)
        );
    }

    // One node, and only that.
    let one = off(&stand, &admin, &["--now", "--node", "n1"]).await;
    assert_eq!(
        (one.code, last(&one, "n1"), end(&one)),
        (Some(0), "nothing", &json!({"end": "restored", "nodes": 1})),
        "{}",
        one.stderr
    );
    // It may be reported as due first.
    assert!(
        (2..=3).contains(&one.lines.len()) && one.stderr.is_empty(),
        "{}",
        one.stderr
    );
    assert!(is_raw(&read(&stand, "n1").await));
    assert_eq!(allocatable(&read(&stand, "n2").await, "cpu"), "6");
    let none = off(&stand, &admin, &["--now", "--node", "n9"]).await;
    assert_eq!(
        (none.code, none.stderr.as_str()),
        (
            Some(1),
            "error: there is no node \"n9\"; see `kubectl get nodes`\n"
        )
    );

    // All nodes; over-committed ones stay.
    let all = off(&stand, &admin, &["--now", "--wait-seconds", "5"]).await;
    assert_eq!(
        (all.code, last(&all, "n2"), last(&all, "full")),
        (Some(1), "nothing", "held"),
        "{}",
        all.stderr
    );
    assert_eq!(
        all.stderr,
        "error: waiting: 1 of 3 nodes are not raw yet: full (its bound pods need cpu 5000m of 4000m)\n"
    );
    let why = json!({"full": "its bound pods need cpu 5000m of 4000m"});
    assert_eq!(end(&all), &json!({"end": "waiting", "nodes": 3, "waiting": why}));
    assert!(is_raw(&read(&stand, "n2").await));
    let held = read(&stand, "full").await;
    assert_eq!(allocatable(&held, "cpu"), "5");
    // The ratio is the administrator's and stays; the mode is the order that was given.
    assert_eq!(annotation(&held, names::RATIO), Some(r#"{"cpu":1.5}"#));
    assert_eq!(annotation(&held, names::MODE), Some("off"));

    // It waits until the pod is deleted.
    let (waited, ()) = tokio::join!(off(&stand, &admin, &["--now"]), async {
        remove_the_pod(&stand).await;
    });
    assert_eq!(
        (waited.code, last(&waited, "full"), end(&waited)),
        (Some(0), "nothing", &json!({"end": "restored", "nodes": 3})),
        "{}",
        waited.stderr
    );
    for name in NODES {
        assert!(is_raw(&read(&stand, name).await), "{name}");
    }

    // A user without the right gets an error, and without a webhook nothing is claimed.
    let stranger = stand
        .cluster
        .kubeconfig_for("stranger", None)
        .expect("kubeconfig");
    let refused = off(&stand, &stranger, &["--now"]).await;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("cannot read the nodes"),
        "{}",
        refused.stderr
    );
    annotate(&stand, "n1", &json!({names::MODE: null})).await;
    stand
        .node_until("n1", "amplified again", |node| allocatable(node, "cpu") == "6")
        .await;
    drop(webhook);
    let unheard = off(&stand, &admin, &["--now", "--wait-seconds", "0"]).await;
    assert_eq!(
        (unheard.code, last(&unheard, "n1")),
        (Some(1), "unanswered"),
        "{}",
        unheard.stderr
    );
    let stored = read(&stand, "n1").await;
    assert_eq!(allocatable(&stored, "cpu"), "6");
    assert_eq!(
        annotation(&stored, names::MODE),
        Some("off"),
        "it counts once a webhook answers"
    );

    // It prints the manual commands for the same cluster; after them the kubelet's next write is stored as sent.
    let by_hand = end(&unheard)["by_hand"][1]
        .as_str()
        .expect("a command")
        .to_owned();
    let flag = format!("--kubeconfig {}", admin.display());
    assert_eq!(
        by_hand,
        format!("kubectl {flag} annotate nodes --all headroom.sh/amplified-allocatable-")
    );
    assert!(
        unheard
            .stderr
            .starts_with("error: unanswered: no webhook processed the writes to 1 of 3 nodes: n1; ")
            && unheard.stderr.contains(&by_hand),
        "{}",
        unheard.stderr
    );
    let words: Vec<&str> = by_hand.split(' ').skip(1).collect();
    let annotated = Kubectl::new(&stand).run(&words, "");
    assert!(annotated.status.success(), "{annotated:?}");
    let raw = json!({"allocatable": {"cpu": "4", "memory": "8Gi"}});
    let node = stand.patch_as_kubelet("n1", &raw).await.expect("a write passes");
    assert_eq!(allocatable(&node, "cpu"), "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_gate_makes_the_leader_remove_only_our_leftovers() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    amplified(&stand).await;
    drop(webhook);
    // As Koordinator's own webhook leaves a node.
    stand.create_node("koordinators", "4", "8Gi").await;
    let theirs =
        json!({names::RATIO: r#"{"cpu":2}"#, names::RAW_ALLOCATABLE: r#"{"cpu":"4","memory":"8Gi"}"#});
    annotate(&stand, "koordinators", &theirs).await;
    let status = json!({"allocatable": {"cpu": "8"}});
    stand
        .patch_as_kubelet("koordinators", &status)
        .await
        .expect("no webhook answers");

    let options = stand.webhook_options("webhook-1", "{}");
    let options = options.gates("NodeMutatingWebhook=false,NodeValidatingWebhook=false");
    let _webhook = headroom_testbed::webhook::Webhook::start(&options)
        .await
        .expect("start the webhook");
    for name in ["n1", "n2"] {
        stand.node_until(name, "restored by the leader", is_raw).await;
    }
    let held = stand
        .node_until("full", "at what is bound", |node| allocatable(node, "cpu") == "5")
        .await;
    assert!(annotation(&held, names::MARKER).is_some());
    remove_the_pod(&stand).await;
    stand.node_until("full", "restored", is_raw).await;
    let theirs = read(&stand, "koordinators").await;
    assert_eq!(allocatable(&theirs, "cpu"), "8");
    assert!(annotation(&theirs, names::RAW_ALLOCATABLE).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_started_with_mode_off_restores_nodes_amplified_by_another() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    amplified(&stand).await;
    remove_the_pod(&stand).await;
    drop(webhook);
    let webhook = stand.webhook("webhook-1", "amplification: {mode: \"off\"}").await;
    stand.register(&webhook).await;
    for name in NODES {
        let node = stand.node_until(name, "restored by the sweep", is_raw).await;
        assert_eq!(
            node.annotations().get(names::RATIO).map(String::as_str),
            Some(r#"{"cpu":1.5}"#)
        );
    }
}

/// The policies neither hide that no webhook answers nor refuse the question, and a setting that ignores annotations is
/// reported.
#[tokio::test(flavor = "multi_thread")]
async fn off_reports_policies_without_a_webhook_and_ignored_annotations() {
    let stand = Stand::start().await;
    e2e::policy_install::install(&stand).await;
    headroom_testbed::policies::put_checks(&stand.client)
        .await
        .expect("install the checks");
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    amplified(&stand).await;
    remove_the_pod(&stand).await;
    drop(webhook);
    let admin = stand.cluster.kubeconfig().to_owned();
    let unanswered = off(&stand, &admin, &[]).await;
    assert_eq!(
        (unanswered.code, last(&unanswered, "n1")),
        (Some(0), "unanswered"),
        "{}",
        unanswered.stderr
    );

    let config = "amplification: {annotations: lower}";
    let webhook = stand.webhook("webhook-1", config).await;
    stand.register(&webhook).await;
    for name in NODES {
        stand
            .node_until(name, "raw: its ratio has no effect", is_raw)
            .await;
    }
    drop(webhook);
    let config = "amplification: {annotations: nothing, mode: guard}";
    let webhook = stand.webhook("webhook-2", config).await;
    stand.register(&webhook).await;
    let status = json!({"allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": [ready(1)]});
    stand
        .patch_as_kubelet("n1", &status)
        .await
        .expect("a write passes");
    let is_marked = |node: &Node| annotation(node, names::MARKER).is_some();
    stand.node_until("n1", "managed", is_marked).await;
    let ignored = off(&stand, &admin, &["--now", "--node", "n1", "--wait-seconds", "0"]).await;
    assert_eq!(
        (ignored.code, last(&ignored, "n1")),
        (Some(1), "ignored"),
        "{}",
        ignored.stderr
    );
    assert!(
        ignored
            .stderr
            .contains("the webhook's setting amplification.annotations keeps mode guard"),
        "{}",
        ignored.stderr
    );
}
