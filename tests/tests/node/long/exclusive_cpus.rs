//! Test of Guaranteed pods under the kubelet's static CPU manager: exclusive CPUs are not amplified, and a Guaranteed pod without
//! exclusive CPUs runs on amplified capacity.

use e2e::{
    etcd::{History, assert_only},
    product::{NODE, Product, ProductOptions},
};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::real_node::{RealNodeOptions, pods};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::containers;
use crate::product::workload::{cpu, requested};

/// Milli-cores of the pod that has a CPU of its own.
const EXCLUSIVE_MILLI: u64 = 1000;
const EXCLUSIVE: &str = "exclusive";
const FRACTION: &str = "fraction";
/// Milli-cores above raw allocatable that the pods request.
const ABOVE_RAW: u64 = 50;

#[ignore = "minutes: cargo xtask test --long real-node"]
#[tokio::test(flavor = "multi_thread")]
async fn exclusive_cpus_are_not_amplified() {
    let mut product = Product::start(ProductOptions {
        node: RealNodeOptions {
            kubelet: json!({"cpuManagerPolicy": "static"}),
            ..RealNodeOptions::new(NODE)
        },
        ..ProductOptions::default()
    })
    .await;
    let raw = cpu(&product.stored_node().await);
    let all = raw * 3 / 2;
    let shared = EXCLUSIVE_MILLI + (raw - EXCLUSIVE_MILLI) * 3 / 2;
    product.annotate(names::RATIO, r#"{"cpu":1.5}"#).await;
    product
        .node_until("all CPUs are amplified", |node| cpu(node) == all)
        .await;

    let exclusive = run_exclusive(&product, shared).await;
    let mut history = History::follow(&product.cluster).await;
    run_fraction(&product, raw).await;
    restart(&mut product, &exclusive).await;
    assert_only(&history.new_revisions_of(NODE).await, Resource::Cpu, &[shared]);

    let at_once = DeleteParams::default().grace_period(0);
    product
        .pods()
        .delete(EXCLUSIVE, &at_once)
        .await
        .expect("delete a pod");
    product
        .node_until("all CPUs are amplified again", |node| cpu(node) == all)
        .await;
    await_measured(&product, 0).await;
    let states = history.new_revisions_of(NODE).await;
    assert_only(&states, Resource::Cpu, &[shared, all]);
}

/// Runs a pod with a CPU of its own, and waits until allocatable is this number of milli-cores.
async fn run_exclusive(product: &Product, shared: u64) -> Pod {
    let agent = product.agent().await;
    let before = cpus(product, &agent);
    run_guaranteed(product, EXCLUSIVE, EXCLUSIVE_MILLI).await;
    product
        .node_until("only shared CPUs are amplified", |node| cpu(node) == shared)
        .await;
    await_measured(product, EXCLUSIVE_MILLI).await;
    let exclusive = product.pods().get(EXCLUSIVE).await.expect("read a pod");
    let own = cpus(product, &exclusive);
    assert!(own.parse::<u32>().is_ok(), "{own} is one CPU");
    product
        .until("the kubelet takes it from other pods", async || {
            cpus(product, &agent) != before
        })
        .await;
    exclusive
}

/// Runs a Guaranteed pod on amplified capacity. It requests no number of whole CPUs: those would be exclusive.
async fn run_fraction(product: &Product, raw: u64) {
    let mut milli = raw + ABOVE_RAW - requested(product).await;
    milli += if milli.is_multiple_of(1000) { 10 } else { 0 };
    run_guaranteed(product, FRACTION, milli).await;
    let pod = product.pods().get(FRACTION).await.expect("read a pod");
    let class = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    assert_eq!(class, Some("Guaranteed"));
    let shared = cpus(product, &product.agent().await);
    assert_eq!(cpus(product, &pod), shared, "it has no exclusive CPU");
}

/// Restarts kubelet and agent. The pods keep running, and keep their CPUs.
async fn restart(product: &mut Product, exclusive: &Pod) {
    let before = containers::read(&product.pods(), &[EXCLUSIVE, FRACTION]).await;
    let own = cpus(product, exclusive);
    product.node.restart_kubelet().await.expect("restart the kubelet");
    product.process(&product.agent().await).signal("KILL");
    let extra = pods::idle("extra", &Value::Null).expect("a pod");
    // The kubelet admits it after all pods that ran before.
    pods::run(&product.pods(), &extra).await.expect("run another pod");
    await_measured(product, EXCLUSIVE_MILLI).await;
    let after = containers::read(&product.pods(), &[EXCLUSIVE, FRACTION]).await;
    assert_eq!(after, before);
    assert_eq!(cpus(product, exclusive), own);
}

/// Waits until the agent has measured this number of milli-cores of exclusive CPUs.
async fn await_measured(product: &Product, milli: u64) {
    product
        .status_until("the agent reports exclusive CPUs", |status| {
            let measured = status.measured.as_ref();
            measured.is_some_and(|measured| measured.exclusive_milli == milli)
        })
        .await;
}

/// CPUs of the pod's first process, as in `0-3,5`.
fn cpus(product: &Product, pod: &Pod) -> String {
    product.process(pod).status()["Cpus_allowed_list"].clone()
}

/// Runs an idle pod whose requests equal its limits.
async fn run_guaranteed(product: &Product, name: &str, milli: u64) {
    let amounts = json!({"cpu": format!("{milli}m"), "memory": "64Mi"});
    let pod = pods::idle(name, &json!({"requests": amounts, "limits": amounts})).expect("a pod");
    pods::run(&product.pods(), &pod).await.expect("run a pod");
}
