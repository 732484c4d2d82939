//! Tests that a replica that also serves Koordinator's family follows the optional kinds of its cluster on a real API
//! server: a kind that is missing at first, one that is installed later, one that is deleted, and one that the
//! replica may not list. Nodes are not affected.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use e2e::{
    custom_kinds::PROFILES,
    stand::{HAPPENS_WITHIN, Stand, allocatable, count},
};
use headroom_domain::names;
use headroom_testbed::{accounts, programs::get, webhook::Webhook};
use k8s_openapi::api::{
    core::v1::Node,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Api, api::DeleteParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

const SOURCE: &str = PROFILES.plural;
/// Maximum time until a replica acts on a kind that was installed.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(35);
/// Maximum delay of a replica's readiness because of a missing kind.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// Maximum time until a replica reports an unknown source: a watch, and its permitted silence.
const LOST_WITHIN: Duration = Duration::from_secs(60 + 95);
const BEAT: Duration = Duration::from_millis(250);
/// Log text for a kind that the API server does not serve.
const ABSENT: &str = "does not serve this resource";
/// Lines in the log about the source, each minute.
const LINES_A_MINUTE: u64 = 3;

/// The right to follow the kind, and its binding.
fn right() -> (ClusterRole, ClusterRoleBinding) {
    let role = json!({
        "metadata": {"name": "profiles"},
        "rules": [{"apiGroups": [PROFILES.group], "resources": [SOURCE], "verbs": ["get", "list", "watch"]}],
    });
    let account = json!({
        "kind": "ServiceAccount", "name": names::WEBHOOK_SERVICE_ACCOUNT, "namespace": names::NAMESPACE,
    });
    let binding = json!({
        "metadata": {"name": "profiles"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "profiles"},
        "subjects": [account],
    });
    (
        serde_json::from_value(role).expect("a role"),
        serde_json::from_value(binding).expect("a binding"),
    )
}

async fn grant(stand: &Stand) {
    let (role, binding) = right();
    let roles: Api<ClusterRole> = Api::all(stand.client.clone());
    accounts::apply(&roles, "profiles", &role).await.expect("a role");
    let bindings: Api<ClusterRoleBinding> = Api::all(stand.client.clone());
    accounts::apply(&bindings, "profiles", &binding)
        .await
        .expect("a binding");
}

async fn revoke(stand: &Stand) {
    let bindings: Api<ClusterRoleBinding> = Api::all(stand.client.clone());
    let deleted = bindings.delete("profiles", &DeleteParams::default()).await;
    deleted.expect("delete the binding");
}

/// Line of the source in `/readyz?verbose`.
async fn line(webhook: &Webhook) -> Option<String> {
    let (_, body) = get(webhook.admin, "/readyz?verbose").await.expect("an answer");
    let text = String::from_utf8(body.to_vec()).expect("text");
    let mut lines = text.lines();
    let line = lines.find(|line| line.split([']', ' ']).nth(1) == Some(SOURCE));
    line.map(str::to_owned)
}

async fn is_known(webhook: &Webhook) -> bool {
    line(webhook).await.is_some_and(|line| line.starts_with("[+]"))
}

async fn profiles(webhook: &Webhook, state: &str) -> u64 {
    count(
        webhook,
        &format!("headroom_webhook_profiles{{state=\"{state}\"}}"),
    )
    .await
}

/// Waits until something is so; how long that took.
async fn within(limit: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < limit, "not in {limit:?}: {what}");
        sleep(Duration::from_millis(100)).await;
    }
    began.elapsed()
}

/// Starts a replica; how long it took until it was ready.
async fn start(stand: &Stand, name: &str, families: &str) -> (Webhook, Duration) {
    let began = Instant::now();
    let webhook = stand.webhook_with(name, "{}", &["--serve", families]).await;
    (webhook, began.elapsed())
}

/// Lines about the source in the log of a replica that have this text.
fn lines(stand: &Stand, replica: &str, text: &str) -> u64 {
    let log = fs::read_to_string(stand.cluster.dir().join(format!("{replica}.log"))).expect("a log");
    let lines = log
        .lines()
        .filter(|line| line.contains(SOURCE) && line.contains(text));
    u64::try_from(lines.count()).expect("a number")
}

/// Sends heartbeats of a node until `is_over` is set; each answer must contain the amplified value.
async fn beat(stand: &Stand, node: &str, is_over: &AtomicBool) -> u32 {
    let mut beats = 0;
    while !is_over.load(Ordering::Relaxed) {
        let condition = e2e::stand::ready(beats % 3600);
        let status =
            json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "conditions": [condition]});
        let written = stand.patch_as_kubelet(node, &status).await.expect("a heartbeat");
        assert_eq!(allocatable(&written, "cpu"), "6", "the webhook answered it");
        beats += 1;
        sleep(BEAT).await;
    }
    beats
}

/// Installs the kind, deletes it, installs it again, revokes the right and grants it again; the replica's state
/// follows.
async fn installs_and_removes_the_kind(stand: &Stand, webhook: &Webhook) {
    within(HAPPENS_WITHIN, "known to be absent", async || {
        is_known(webhook).await
    })
    .await;
    assert_eq!(profiles(webhook, "valid").await, 0);

    PROFILES.install(stand).await;
    PROFILES
        .create(
            stand,
            "",
            "good",
            &json!({"selector": {"matchLabels": {"a": "b"}}}),
        )
        .await;
    PROFILES
        .create(stand, "", "bad", &json!({"selector": {"matchLabels": ["a"]}}))
        .await;
    within(FOLLOWS_WITHIN, "followed", async || {
        (
            profiles(webhook, "valid").await,
            profiles(webhook, "invalid").await,
        ) == (1, 1)
    })
    .await;

    PROFILES.uninstall(stand).await;
    within(HAPPENS_WITHIN, "none after the kind went", async || {
        profiles(webhook, "valid").await + profiles(webhook, "invalid").await == 0
    })
    .await;
    within(HAPPENS_WITHIN, "known to be absent again", async || {
        lines(stand, "webhook-0", ABSENT) == 2
    })
    .await;
    assert!(is_known(webhook).await, "that there are none");

    PROFILES.install(stand).await;
    PROFILES.create(stand, "", "again", &json!({})).await;
    within(HAPPENS_WITHIN, "followed again", async || {
        profiles(webhook, "valid").await == 1
    })
    .await;

    revoke(stand).await;
    within(LOST_WITHIN, "not known without the right", async || {
        !is_known(webhook).await
    })
    .await;
    assert_eq!(profiles(webhook, "valid").await, 1, "unknown, and not none");
    let (status, _) = get(webhook.admin, "/readyz").await.expect("an answer");
    assert_eq!(status, 200, "readiness does not depend on it");

    grant(stand).await;
    within(HAPPENS_WITHIN, "known again", async || is_known(webhook).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn optional_kind_can_be_added_and_removed_without_affecting_nodes() {
    let stand = Stand::start_with(headroom_testbed::cluster::ClusterOptions::default()).await;
    grant(&stand).await;
    let (alone, without) = start(&stand, "webhook-alone", "nodes").await;
    assert_eq!(line(&alone).await, None, "the family is not served");
    drop(alone);
    let began = Instant::now();
    let (webhook, with) = start(&stand, "webhook-0", "nodes,koordinator").await;
    assert!(with < without + READY_WITHIN, "{with:?} and {without:?}");
    stand.register(&webhook).await;
    stand.create_node("n1", "4", "8Gi").await;
    stand.set_ratio("n1", 150).await;
    // The API server takes a moment to call the replica.
    let is_amplified = |node: &Node| allocatable(node, "cpu") == "6";
    stand.node_until("n1", "it is amplified", is_amplified).await;

    let is_over = Arc::new(AtomicBool::new(false));
    let beating = beat(&stand, "n1", &is_over);
    let changing = async {
        installs_and_removes_the_kind(&stand, &webhook).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let (beats, ()) = tokio::join!(beating, changing);
    let minutes = began.elapsed().as_secs().div_ceil(60);
    let lines = lines(&stand, "webhook-0", "");
    assert!(beats > 0, "no heartbeat was sent");
    assert!(
        lines <= minutes * LINES_A_MINUTE,
        "{lines} lines in {minutes} minutes"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_without_list_rights_is_ready_and_treats_the_source_as_unknown() {
    let stand = Stand::start().await;
    let (webhook, took) = start(&stand, "webhook-0", "nodes,koordinator").await;
    println!("ready after {took:?}");
    assert!(!is_known(&webhook).await);
    within(HAPPENS_WITHIN, "refused more than once", async || {
        let errors = format!("headroom_webhook_informer_errors_total{{resource=\"{SOURCE}\"}}");
        count(&webhook, &errors).await >= 3
    })
    .await;
    let line = line(&webhook).await.expect("a line");
    assert!(line.starts_with("[-]"), "{line}");
    assert!(lines(&stand, "webhook-0", "") <= LINES_A_MINUTE);
}
