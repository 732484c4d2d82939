//! A real kubelet with an outdated copy of its Node amplifies nothing twice: an amount that its PATCH leaves out is the
//! webhook's, not raw.
//!
//! The copy lags up to 30 s. With `HEADROOM_SOAK` set in the environment more lags in between are tested, which takes
//! minutes.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{env, time::Duration};

use e2e::{
    delayed_proxy::DelayedProxy,
    etcd::History,
    foreign_webhook::{BEFORE, Foreign, naive, unregister},
    scripted_agent::hint,
    stand::{AUTO, Stand, allocatable, eager_kubelet, until},
};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::cluster::NodeOptions;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};

/// CPUs that the kubelet reports, in milli-cores: 4, of which it reserves 200m.
const RAW: u64 = 3800;
/// The ratio that is set whenever the kubelet's copy is raw, and the result.
const CENTS: u32 = 150;
const AMPLIFIED: u64 = 5700;
/// Ratio that a hint may raise to at once, before the kubelet observes it.
const STEP: u32 = 105;
/// Delays of the kubelet's watch, in seconds.
const LAGS_S: [u64; 3] = [0, 3, 30];
const LONG_LAGS_S: [u64; 8] = [0, 1, 2, 5, 10, 15, 20, 30];

/// A kubelet that writes each second, by way of the detour.
async fn kubelet(stand: &mut Stand) -> DelayedProxy {
    let client = stand
        .cluster
        .client_for_node("n1")
        .await
        .expect("the node's client");
    let detour = DelayedProxy::open(client).await;
    let options = NodeOptions {
        api_server_url: Some(detour.url()),
        ..eager_kubelet("n1")
    };
    stand.cluster.start_node(options).await.expect("a node");
    detour
}

fn lags() -> Vec<Duration> {
    let is_soak = env::var_os("HEADROOM_SOAK").is_some();
    let lags: &[u64] = if is_soak { &LONG_LAGS_S } else { &LAGS_S };
    lags.iter().copied().map(Duration::from_secs).collect()
}

/// Waits until the kubelet has sent that many more writes of one kind: with its own allocatable, or without any.
async fn sends(detour: &DelayedProxy, what: &str, count: usize, is_without_allocatable: bool) {
    let before = detour.sent().len();
    until(what, async || {
        let sent = detour.sent();
        let more = sent.iter().skip(before);
        more.filter(|sent| sent.is_without_allocatable() == is_without_allocatable)
            .count()
            >= count
    })
    .await;
}

/// Raises the ratio while the kubelet's copy of its Node is raw and lags, and lowers it again. Returns all that was
/// stored meanwhile.
async fn ahead_of_the_kubelet(
    detour: &DelayedProxy,
    history: &mut History,
    lags: &[Duration],
    cents: u32,
    mut ask: impl AsyncFnMut(u32),
) -> Vec<u64> {
    let mut stored = Vec::new();
    for &lag in lags {
        sends(detour, "the kubelet's copy is raw", 2, true).await;
        detour.lag(lag);
        ask(cents).await;
        // A kubelet that syncs each second writes twice before it has seen the new value.
        if lag > Duration::from_secs(2) {
            sends(
                detour,
                "heartbeats of a kubelet that has not seen the new value",
                2,
                true,
            )
            .await;
        }
        sends(detour, "the kubelet has seen it, and sends its own", 1, false).await;
        ask(100).await;
        stored.extend(
            history
                .new_revisions_of("n1")
                .await
                .iter()
                .map(|state| state.amount(Resource::Cpu)),
        );
    }
    stored
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_of_a_kubelet_that_lags_behind_a_new_ratio_never_amplify_twice() {
    let mut stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    let detour = kubelet(&mut stand).await;
    let mut history = History::follow(&stand.cluster).await;
    let stored = ahead_of_the_kubelet(&detour, &mut history, &lags(), CENTS, async |cents| {
        stand.set_ratio("n1", cents.into()).await;
    })
    .await;
    assert!(stored.contains(&AMPLIFIED), "{stored:?}");
    assert!(
        stored.iter().all(|amount| [RAW, AMPLIFIED].contains(amount)),
        "{stored:?}"
    );

    // The same with a rule that treats the value in a kubelet's write as raw.
    let other = Foreign::start(stand.cluster.dir(), naive).await;
    unregister(&stand.client, names::WEBHOOK_CONFIGURATION).await;
    other.register(&stand.client, BEFORE).await;
    until("it is called", async || other.calls() > 0).await;
    let lags = [Duration::from_secs(3)];
    let stored = ahead_of_the_kubelet(&detour, &mut history, &lags, CENTS, async |cents| {
        stand.set_ratio("n1", cents.into()).await;
    })
    .await;
    assert!(
        stored.contains(&(AMPLIFIED * 3 / 2)),
        "the naive rule stands the test: {stored:?}"
    );
    drop(webhook);
}

#[tokio::test(flavor = "multi_thread")]
async fn nudges_not_yet_seen_by_a_kubelet_never_amplify_twice() {
    let mut stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    let detour = kubelet(&mut stand).await;
    let nodes: Api<Node> = Api::all(stand.client.clone());
    let node = nodes.get("n1").await.expect("read the node");
    let mut agent = stand.agent(&node, &webhook).await;
    let pods = agent
        .pods_until(|_| true)
        .await
        .expect("the server's list of pods");
    let (uid, mut seq) = (node.uid().expect("a UID"), 0);
    let mut history = History::follow(&stand.cluster).await;
    let stored = ahead_of_the_kubelet(&detour, &mut history, &lags(), STEP, async |cents| {
        seq += 1;
        let mut report = hint("n1", &uid, seq, cents);
        report.pods_generation = pods.generation;
        agent.report(&report).await.expect("an acknowledgement");
        let expected = format!("{}m", RAW * u64::from(cents) / 100);
        stand
            .node_until("n1", "nudged", |node| allocatable(node, "cpu") == expected)
            .await;
    })
    .await;
    let raised = RAW * u64::from(STEP) / 100;
    assert!(stored.contains(&raised), "{stored:?}");
    assert!(
        stored.iter().all(|amount| [RAW, raised].contains(amount)),
        "{stored:?}"
    );
}
