//! Test of in-place resizes on an amplified node: the kubelet applies one within free capacity, and defers one above it. A deferred
//! resize does not raise allocatable, is not covered by the floor, and is applied when there is room.

use std::time::Duration;

use e2e::{
    etcd::{History, assert_only},
    product::{NODE, Product, ProductOptions},
};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::real_node::pods;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::containers;
use crate::product::workload::{cpu, requested};

const RESIZED: &str = "resized";
const OTHERS: [&str; 2] = ["first", "second"];
/// Time for which the deferred resize is requested again and again.
const FOR: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_secs(2);

#[ignore = "minutes: cargo xtask test --long real-node"]
#[tokio::test(flavor = "multi_thread")]
async fn deferred_resize_waits_for_room_and_does_not_raise_allocatable() {
    let product = Product::start(ProductOptions::default()).await;
    let raw = cpu(&product.stored_node().await);
    let full = raw * 3 / 2;
    product.annotate(names::RATIO, r#"{"cpu":1.5}"#).await;
    product
        .node_until("the node is amplified", |node| cpu(node) == full)
        .await;
    // A third of raw allocatable each: together with a resized pod of one half they exceed it.
    let third = raw / 3;
    for name in OTHERS.into_iter().chain([RESIZED]) {
        let request = if name == RESIZED { raw / 6 } else { third };
        let pod = pods::idle(name, &json!({"requests": {"cpu": format!("{request}m")}})).expect("a pod");
        pods::run(&product.pods(), &pod).await.expect("run a pod");
    }
    let pods = product.pods();
    let before = containers::read(&pods, &[RESIZED]).await;
    let mut history = History::follow(&product.cluster).await;

    let accepted = raw / 2;
    resize(&pods, accepted).await;
    await_applied(&product, accepted).await;
    let held = requested(&product).await;
    assert!(held > raw, "{held} of {raw}");

    let last = defer(&product, accepted + full - held).await;
    assert_only(&history.new_revisions_of(NODE).await, Resource::Cpu, &[full]);
    assert_eq!(
        applied(&pods.get(RESIZED).await.expect("read a pod")).as_deref(),
        Some(&*format!("{accepted}m"))
    );

    // Without amplification the floor covers the pods, with the request in force of the resized one.
    product.annotate(names::RATIO, r#"{"cpu":1}"#).await;
    product
        .node_until("only the requests of pods are covered", |node| {
            (held..=held + raw / 100).contains(&cpu(node))
        })
        .await;
    sleep(5 * EVERY).await;
    let lowest = cpu(&product.stored_node().await);
    assert!(
        (held..=held + raw / 100).contains(&lowest),
        "{lowest}m with requests of {held}m"
    );

    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(OTHERS[0], &at_once).await.expect("delete a pod");
    await_applied(&product, last).await;
    assert!(pending(&pods.get(RESIZED).await.expect("read a pod")).is_none());
    assert_eq!(
        containers::read(&pods, &[RESIZED]).await,
        before,
        "a resize does not restart the container"
    );
    let amounts = history.new_revisions_of(NODE).await;
    let amounts = e2e::etcd::course(&amounts, Resource::Cpu);
    assert!(
        amounts.iter().skip(1).all(|amount| *amount <= lowest),
        "{amounts:?}, of which {full} is the first"
    );
}

/// Requests more than this number of milli-cores, which are free, and less than the node has. Returns the last request. The kubelet
/// would refuse one above allocatable as infeasible.
async fn defer(product: &Product, free: u64) -> u64 {
    let deadline = Instant::now() + FOR;
    let mut last = free;
    for milli in [free + 100, free + 50].into_iter().cycle() {
        let generation = resize(&product.pods(), milli).await;
        await_deferred(product, generation).await;
        last = milli;
        if Instant::now() > deadline {
            break;
        }
        sleep(EVERY).await;
    }
    last
}

/// Requests this number of milli-cores for the pod. Returns the pod's generation.
async fn resize(pods: &Api<Pod>, milli: u64) -> i64 {
    let resources = json!({"requests": {"cpu": format!("{milli}m")}});
    let patch = json!({"spec": {"containers": [{"name": "busybox", "resources": resources}]}});
    let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
    let resized = pods.patch_subresource("resize", RESIZED, &params, &patch).await;
    resized
        .expect("resize the pod")
        .metadata
        .generation
        .expect("a generation")
}

/// Waits until the kubelet reports this request as the one in force.
async fn await_applied(product: &Product, milli: u64) {
    product
        .until("the resize is applied", async || {
            let pod = product.pods().get(RESIZED).await.expect("read a pod");
            pending(&pod).is_none() && applied(&pod) == Some(format!("{milli}m"))
        })
        .await;
}

async fn await_deferred(product: &Product, generation: i64) {
    product
        .until("the kubelet defers the resize", async || {
            let pending = pending(&product.pods().get(RESIZED).await.expect("read a pod"));
            pending.is_some_and(|pending| {
                assert_ne!(pending.reason.as_deref(), Some("Infeasible"), "{pending:?}");
                pending.observed_generation.is_some_and(|seen| seen >= generation)
            })
        })
        .await;
}

fn pending(pod: &Pod) -> Option<PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "PodResizePending")
        .cloned()
}

/// CPU request of the container that the kubelet has applied.
fn applied(pod: &Pod) -> Option<String> {
    let resources = containers::status(pod)?.resources?;
    Some(resources.requests?.get("cpu")?.0.clone())
}
