//! Tests of the option `steady-state-skip` on a real API server: which writes skip the webhook, and the gain while it
//! hangs and when a brake fires.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests panic: a returned error has no stack; figures are for people"
)]

use std::time::Duration;

use e2e::{
    policy_install,
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, HAPPENS_WITHIN, Stand, allocatable, annotation, count, kubelet, ready, until},
};
use futures::{StreamExt as _, TryStreamExt as _};
use headroom_domain::{hint::Brake, names, quantity::Quantity};
use headroom_testbed::webhook::{self, Webhook};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, interval, sleep, timeout},
};

/// Calls of the endpoint that the webhook has answered.
const REVIEWS: &str = r#"headroom_webhook_reviews_total{endpoint="mutate-node-status""#;
/// The webhook's entry, as a label.
const ENTRY: &str = r#"name="mnode-status.koordinator.sh""#;
/// Labels of status writes by PATCH.
const STATUS_PATCH: [&str; 3] = [
    r#"resource="nodes""#,
    r#"subresource="status""#,
    r#"verb="PATCH""#,
];
/// Real kubelets; each writes its status every 10 s.
const NODES: u32 = 5;
/// Duration of the measurements with an answering webhook, and without.
const CALM: Duration = Duration::from_secs(40);
const HUNG: Duration = Duration::from_secs(20);
/// An agent that reports more often than every 50 ms is not listened to.
const REPORT_EVERY: Duration = Duration::from_millis(60);
/// Brakes per run; a node rises by at most as many hundredths at a time.
const BRAKES: u32 = 50;
/// Runs of each mode. The modes alternate, so that a temporary disturbance of this machine affects both.
const TURNS: usize = 3;

/// Stored result of a write by n1's kubelet.
async fn written(stand: &Stand, status: &Value) -> Node {
    stand.patch_as_kubelet("n1", status).await.expect("passes")
}

/// A status with raw values, `seconds` after noon.
fn raw(seconds: u32) -> Value {
    json!({"allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": [ready(seconds)]})
}

/// The status with another member.
fn with(mut status: Value, member: &str, value: Value) -> Value {
    status[member] = value;
    status
}

/// A patch of the status by the webhook's own account.
async fn written_by_us(stand: &Stand, patch: Value) -> Node {
    let account = format!(
        "system:serviceaccount:{}:{}",
        names::NAMESPACE,
        names::WEBHOOK_SERVICE_ACCOUNT
    );
    let client = stand
        .cluster
        .client_for(&account, None)
        .await
        .expect("our client");
    let nodes: Api<Node> = Api::all(client);
    let patched = nodes
        .patch_status("n1", &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("passes")
}

/// Writes of n1's kubelet in order: description, status, CPU that is stored afterwards, and whether the webhook is
/// called.
fn writes() -> [(&'static str, Value, &'static str, bool); 12] {
    let pressure = |status: &str| json!({"type": "DiskPressure", "status": status, "lastHeartbeatTime": "2026-01-01T12:01:00Z"});
    let conditions = |seconds, pressure| with(raw(seconds), "conditions", json!([ready(seconds), pressure]));
    let less = |seconds| with(raw(seconds), "allocatable", json!({"cpu": "3", "memory": "8Gi"}));
    [
        ("a heartbeat", raw(20), "6", false),
        (
            "a heartbeat alone",
            json!({"conditions": [ready(30)]}),
            "6",
            false,
        ),
        ("less", less(40), "4500m", true),
        ("a heartbeat with less", less(50), "4500m", false),
        ("as much as before", raw(60), "6", true),
        ("a condition", conditions(70, pressure("False")), "6", true),
        ("its flip", conditions(80, pressure("True")), "6", true),
        (
            "something new",
            with(raw(90), "declaredFeatures", json!(["Later"])),
            "6",
            true,
        ),
        ("a heartbeat before it is due", raw(90 + 289), "6", false),
        ("a heartbeat that is due to the policy", raw(90 + 290), "6", true),
        ("a heartbeat that is due to the webhook", raw(90 + 300), "6", true),
        ("the next one", raw(90 + 310), "6", false),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_changing_write_still_reaches_the_webhook() {
    let stand = Stand::start().await;
    policy_install::install(&stand).await;
    let mut webhook = stand.webhook("webhook-0", "{}").await;
    stand.register_skipping(&webhook).await;
    stand.create_node("n1", "4", "8Gi").await;
    stand
        .annotate("n1", names::RATIO, r#"{"cpu":1.5,"memory":1.25}"#)
        .await;
    until("amplified", async || {
        allocatable(&written(&stand, &raw(10)).await, "memory") == "10Gi"
    })
    .await;
    for (what, status, cpu, is_called) in writes() {
        let before = count(&webhook, REVIEWS).await;
        let node = written(&stand, &status).await;
        assert_eq!(allocatable(&node, "cpu"), cpu, "{what}");
        assert_eq!(
            count(&webhook, REVIEWS).await - before,
            u64::from(is_called),
            "{what}"
        );
        assert_eq!(annotation(&node, names::KUBELET_RAW), None, "{what}");
    }

    // Nudge and touch are ours; a touch changes nothing.
    for patch in [
        json!({"metadata": {"annotations": {names::HINT: "{}"}}}),
        json!({}),
    ] {
        let before = count(&webhook, REVIEWS).await;
        written_by_us(&stand, patch.clone()).await;
        assert_eq!(count(&webhook, REVIEWS).await - before, 1, "{patch}");
    }
    pending_note_is_removed_by_the_next_call(&stand, &mut webhook).await;

    // Another mode is applied although the kubelet's writes change nothing.
    stand.annotate("n1", names::MODE, "off").await;
    let restored = stand
        .node_until("n1", "raw again", |node| allocatable(node, "cpu") == "4")
        .await;
    assert_eq!(annotation(&restored, names::MARKER), None);
}

/// A note that was written while the webhook hung causes no calls, and the next call removes it.
async fn pending_note_is_removed_by_the_next_call(stand: &Stand, webhook: &mut Webhook) {
    webhook.process.signal(Signal::STOP).expect("freeze the webhook");
    let left = written(stand, &raw(690)).await;
    webhook.process.signal(Signal::CONT).expect("resume it");
    assert!(annotation(&left, names::KUBELET_RAW).is_some());
    // Counted by the API server: the webhook may still process requests from the time while it hung.
    let before = counts(stand).await;
    let same = written(stand, &raw(700)).await;
    assert_eq!(same.resource_version(), left.resource_version());
    assert!(counts(stand).await[2] <= before[2], "{before:?}");
    let due = written(stand, &raw(1000)).await;
    assert_eq!(annotation(&due, names::KUBELET_RAW), None);
}

/// Counters over an interval.
#[derive(Debug)]
struct SkipInterval {
    /// Status writes that were answered with 200.
    patches: f64,
    refused: f64,
    /// Calls of the webhook, answered or not.
    calls: f64,
    /// Calls that were given up.
    given_up: f64,
    /// Seconds that a status write took in the API server, on average.
    seconds: f64,
}

/// Counters of the API server: status writes with 200 and all, calls of the webhook and abandoned calls, and the
/// seconds and number of timed writes.
async fn counts(stand: &Stand) -> [f64; 6] {
    let metrics = stand.metrics().await;
    let [resource, subresource, verb] = STATUS_PATCH;
    let ok = [resource, subresource, verb, r#"code="200""#];
    let calls = "apiserver_admission_webhook_admission_duration_seconds_count";
    [
        metrics.sum("apiserver_request_total", &ok),
        metrics.sum("apiserver_request_total", &STATUS_PATCH),
        metrics.sum(calls, &[ENTRY]),
        metrics.sum("apiserver_admission_webhook_fail_open_count", &[ENTRY]),
        metrics.sum("apiserver_request_duration_seconds_sum", &STATUS_PATCH),
        metrics.sum("apiserver_request_duration_seconds_count", &STATUS_PATCH),
    ]
}

/// By node: its version and when its lease was renewed.
async fn lives(stand: &Stand) -> Vec<(String, String)> {
    let all = stand.nodes().list(&ListParams::default()).await;
    let leases: Api<Lease> = Api::namespaced(stand.client.clone(), "kube-node-lease");
    let mut lives = Vec::new();
    for node in all.expect("list the nodes") {
        assert_eq!(allocatable(&node, "cpu"), "6", "{}", node.name_any());
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let is_ready = |conditions: &Vec<_>| {
            let mut all = conditions.iter();
            all.any(|condition: &k8s_openapi::api::core::v1::NodeCondition| {
                condition.type_ == "Ready" && condition.status == "True"
            })
        };
        assert!(
            conditions.is_some_and(is_ready),
            "{} is not ready",
            node.name_any()
        );
        let lease = leases.get(&node.name_any()).await.expect("read a lease");
        let renewed = lease.spec.and_then(|spec| spec.renew_time).expect("a time");
        lives.push((node.resource_version().expect("a version"), renewed.0.to_string()));
    }
    lives
}

/// Observes for `length`. Regardless of the webhook, all status writes are accepted and change nothing, and all
/// leases are renewed.
async fn stretch(stand: &Stand, what: &str, length: Duration) -> SkipInterval {
    let (lives_before, before) = (lives(stand).await, counts(stand).await);
    sleep(length).await;
    let (lives_after, after) = (lives(stand).await, counts(stand).await);
    for ((version, renewed), (version_after, renewed_after)) in lives_before.iter().zip(&lives_after) {
        assert_eq!(version, version_after, "{what}");
        assert_ne!(renewed, renewed_after, "{what}");
    }
    let [ok, all, calls, given_up, seconds, timed] =
        std::array::from_fn(|index| after[index] - before[index]);
    let stretch = SkipInterval {
        patches: ok,
        refused: all - ok,
        calls,
        given_up,
        seconds: seconds / timed,
    };
    println!("{what}, {length:?}: {stretch:?}");
    assert!(stretch.patches >= f64::from(NODES), "{what}: {stretch:?}");
    assert!(stretch.refused < 1.0, "{what}: {stretch:?}");
    stretch
}

/// Real kubelets on nodes of 4 CPUs, amplified to 6, that have no more changes to send.
async fn kubelets(stand: &mut Stand) {
    for number in 0..NODES {
        let name = format!("n{number}");
        stand.cluster.start_node(kubelet(&name)).await.expect("node");
        stand.annotate(&name, names::RATIO, r#"{"cpu":1.5}"#).await;
    }
    let versions = async || {
        let nodes = stand.nodes().list(&ListParams::default()).await;
        let nodes = nodes.expect("list the nodes").items.into_iter();
        nodes
            .map(|node| (allocatable(&node, "cpu"), node.resource_version()))
            .collect::<Vec<_>>()
    };
    until(
        "all are amplified, and each has written twice without news",
        async || {
            let (before, patches) = (versions().await, counts(stand).await[0]);
            until("each has written twice", async || {
                counts(stand).await[0] >= patches + f64::from(2 * NODES)
            })
            .await;
            before.iter().all(|(cpu, _)| cpu == "6") && versions().await == before
        },
    )
    .await;
}

/// Waits until the API server calls the webhook for a heartbeat, or no longer does, by a write that changes nothing
/// in an existing node.
async fn in_force(stand: &Stand, is_called: bool) {
    until("the registration is in force", async || {
        let before = counts(stand).await[2];
        stand.patch_as_kubelet("n0", &json!({})).await.expect("passes");
        (counts(stand).await[2] > before) == is_called
    })
    .await;
}

#[ignore = "measures for minutes: cargo xtask test --long measurements"]
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_make_no_calls_and_are_not_delayed_by_a_hung_webhook() {
    let mut stand = Stand::start().await;
    policy_install::install(&stand).await;
    let mut webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    kubelets(&mut stand).await;
    let called = stretch(&stand, "called", CALM).await;
    stand.register_skipping(&webhook).await;
    in_force(&stand, false).await;
    let skipped = stretch(&stand, "skipped", CALM).await;
    assert!(called.calls > 0.8 * called.patches, "{called:?}");
    assert!(skipped.calls < 0.2 * skipped.patches, "{skipped:?}");

    webhook.process.signal(Signal::STOP).expect("freeze the webhook");
    let skipped = stretch(&stand, "skipped while it hangs", HUNG).await;
    stand.register(&webhook).await;
    in_force(&stand, true).await;
    let called = stretch(&stand, "called while it hangs", HUNG).await;
    webhook.process.signal(Signal::CONT).expect("resume it");
    assert!(called.given_up > 0.8 * called.patches, "{called:?}");
    assert!(skipped.given_up < 0.2 * skipped.patches, "{skipped:?}");
    assert!(4.0 * skipped.seconds < called.seconds, "{skipped:?} {called:?}");

    // As hopeless: a port that takes connections and never answers.
    let (port, silent) = silent().await;
    let url = format!("https://127.0.0.1:{port}");
    webhook::register(&stand.client, &url, &webhook.ca, &webhook.served)
        .await
        .expect("register it");
    until("it is called", async || {
        stand.patch_as_kubelet("n0", &json!({})).await.expect("passes");
        *silent.borrow() > 0
    })
    .await;
    let called = stretch(&stand, "called without an answer", HUNG).await;
    assert!(called.given_up > 0.8 * called.patches, "{called:?}");
}

/// A port that accepts connections and never answers, and the number of connections that it has accepted.
async fn silent() -> (u16, watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (taken_tx, taken) = watch::channel(0);
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            connections.push(connection);
            taken_tx.send_replace(connections.len());
        }
    });
    (port, taken)
}

/// Allocatable CPU of n1 over time, from a watch.
async fn followed(stand: &Stand) -> (JoinHandle<()>, mpsc::UnboundedReceiver<(Instant, String)>) {
    let node = stand.nodes().get("n1").await.expect("read the node");
    let params = WatchParams::default().fields("metadata.name=n1").timeout(290);
    let version = node.resource_version().expect("a version");
    let events = stand.nodes().watch(&params, &version).await.expect("watch");
    let (seen_tx, seen) = mpsc::unbounded_channel();
    let follow = async move {
        let mut events = events.boxed();
        while let Some(event) = events.try_next().await.expect("an event") {
            let WatchEvent::Modified(node) = event else {
                panic!("something else than a write");
            };
            // A receiver that has seen enough is dropped.
            let _is_heard = seen_tx.send((Instant::now(), allocatable(&node, "cpu"))).is_ok();
        }
    };
    (tokio::spawn(follow), seen)
}

/// Reports for n1, whose raw CPU is 4.
struct Driver {
    agent: ScriptedAgent,
    uid: String,
    seq: u64,
}

impl Driver {
    /// Reports a ratio, braked or not; returns the allocatable CPU that must follow.
    async fn report(&mut self, cents: u32, brake: Brake) -> String {
        self.seq += 1;
        let mut hint = hint("n1", &self.uid, self.seq, cents);
        hint.resources.cpu.brake = brake;
        let ack = self.agent.report(&hint).await.expect("an acknowledgement");
        assert_eq!(ack.reason, "");
        Quantity::from_milli(u64::from(cents) * 40).to_string()
    }

    /// Raises n1, then fires brakes one after the other; returns how long each took to be seen in a watch.
    async fn brakes(&mut self, stand: &Stand) -> Vec<Duration> {
        let highest = 100 + BRAKES;
        let raised = self.report(highest, Brake::Off).await;
        stand
            .node_until("n1", "raised", |node| allocatable(node, "cpu") == raised)
            .await;
        let (following, mut seen) = followed(stand).await;
        let mut took = Vec::new();
        let mut reports = interval(REPORT_EVERY);
        for cents in (100..highest).rev() {
            reports.tick().await;
            let fired = Instant::now();
            let lowered = self.report(cents, Brake::Shed).await;
            let applied = async {
                loop {
                    let (at, cpu) = seen.recv().await.expect("the watch stays open");
                    if cpu == lowered {
                        return at;
                    }
                }
            };
            let at = timeout(HAPPENS_WITHIN, applied).await.expect("it is lowered");
            took.push(at - fired);
        }
        following.abort();
        took
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brake_is_as_quick_without_the_heartbeats() {
    let mut stand = Stand::start().await;
    policy_install::install(&stand).await;
    let mut webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    stand.cluster.start_node(kubelet("n1")).await.expect("node");
    let mut driver = driver(&stand, &webhook).await;
    let (mut called, mut skipped) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        stand.register(&webhook).await;
        called.extend(driver.brakes(&stand).await);
        stand.register_skipping(&webhook).await;
        skipped.extend(driver.brakes(&stand).await);
    }
    let [called, skipped] = [("called", called), ("skipped", skipped)].map(|(what, mut took)| {
        took.sort();
        let [quick, middle, last] = [25, 50, 99].map(|percent| took[took.len() * percent / 100]);
        println!(
            "{what}: p25 {quick:?}, p50 {middle:?}, p99 {last:?}, n {}",
            took.len()
        );
        quick
    });
    // Other load on this machine only ever adds time, so the quickest quarter is the best measure of the modes.
    assert!(skipped < 2 * called, "{skipped:?} {called:?}");

    // A brake that fires while the webhook hangs is applied when the webhook resumes, whatever the kubelet wrote
    // meanwhile.
    driver.report(150, Brake::Off).await;
    stand
        .node_until("n1", "raised", |node| allocatable(node, "cpu") == "6")
        .await;
    webhook.process.signal(Signal::STOP).expect("freeze the webhook");
    let before = counts(&stand).await[0];
    let goes_on = async {
        until("the kubelet has written", async || {
            counts(&stand).await[0] > before
        })
        .await;
        let node = stand.nodes().get("n1").await.expect("read the node");
        assert_eq!(allocatable(&node, "cpu"), "6");
        webhook.process.signal(Signal::CONT).expect("resume it");
    };
    tokio::join!(driver.report(120, Brake::Shed), goes_on);
    stand
        .node_until("n1", "braked", |node| allocatable(node, "cpu") == "4800m")
        .await;
}

async fn driver(stand: &Stand, webhook: &Webhook) -> Driver {
    let node = stand.nodes().get("n1").await.expect("read the node");
    let token = stand.agent_token(&node).await;
    let mut agent = ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&token))
        .await
        .expect("a stream");
    agent
        .pods_until(|_| true)
        .await
        .expect("the server's list of pods");
    Driver {
        agent,
        uid: node.uid().expect("a UID"),
        seq: 0,
    }
}
