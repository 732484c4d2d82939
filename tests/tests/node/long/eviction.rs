//! Test of eviction: a pod uses memory up to the kubelet's hard threshold. The agent brakes, the kubelet evicts that pod and no other,
//! memory is not amplified while the Node reports memory pressure, and is amplified again afterwards.

use std::{fs, time::Duration};

use e2e::{
    etcd::{History, assert_only},
    product::{Changes, NODE, Product, ProductOptions},
};
use headroom_domain::{capacity::amount, names, resource::Resource};
use headroom_testbed::{
    real_node::{RealNodeOptions, pods},
    webhook::DEMO_TIMING,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{ResourceExt as _, api::PostParams};
use serde_json::json;
use tokio::time::sleep;

use super::containers;

const GIB: u64 = 1 << 30;
/// Memory that the machine can lose until its available memory reaches the threshold.
const ABOVE_THRESHOLD: u64 = 2 * GIB;
/// Memory that the pod uses beyond the threshold.
const BEYOND: u64 = GIB / 2;
/// Memory that the machine keeps.
const KEPT: u64 = 4 * GIB;
const EATER: &str = "eater";
const IDLE: &str = "idle";
/// Time for which the brake's value is observed after the pod has been evicted.
const FOR: Duration = Duration::from_secs(5);

#[ignore = "minutes: cargo xtask test --long real-node"]
#[tokio::test(flavor = "multi_thread")]
async fn evicting_node_does_not_amplify_memory() {
    let machine = Machine::read();
    let product = machine.start().await;
    let raw = memory(&product.stored_node().await);
    let pods = product.pods();
    let request = json!({"requests": {"memory": (raw - GIB).to_string()}});
    let idle = pods::idle(IDLE, &request).expect("a pod");
    pods::run(&pods, &idle).await.expect("run a pod");
    product.annotate(names::MODE, "auto").await;
    product
        .node_until("memory is amplified", |node| memory(node) > raw + raw / 20)
        .await;
    let before = containers::read(&pods, &[IDLE]).await;
    let ours = ours(&product).await;

    let eater = machine.eater();
    pods.create(&PostParams::default(), &eater)
        .await
        .expect("create a pod");
    product
        .status_until("the agent brakes memory", |status| {
            status
                .resource(Resource::Memory)
                .is_some_and(|part| part.brake == 3)
        })
        .await;
    product
        .node_until("memory is not amplified", |node| memory(node) == raw)
        .await;
    let mut history = History::follow(&product.cluster).await;
    product
        .node_until("the kubelet reports memory pressure", has_pressure)
        .await;
    await_eviction(&product).await;
    sleep(FOR).await;
    assert_only(&history.new_revisions_of(NODE).await, Resource::Memory, &[raw]);
    assert!(
        has_pressure(&product.stored_node().await),
        "the kubelet reports pressure for a while"
    );

    product
        .node_until("the pressure ends", |node| !has_pressure(node))
        .await;
    product
        .node_until("memory is amplified again", |node| memory(node) > raw + raw / 20)
        .await;
    assert_eq!(
        containers::read(&pods, &[IDLE]).await,
        before,
        "no other pod is evicted"
    );
    assert_eq!(
        self::ours(&product).await,
        ours,
        "no pod of the product is evicted or restarted"
    );
}

async fn await_eviction(product: &Product) {
    product
        .until("the kubelet evicts the pod", async || {
            let pod = product.pods().get(EATER).await.expect("read a pod");
            pod.status
                .is_some_and(|status| status.reason.as_deref() == Some("Evicted"))
        })
        .await;
}

/// Names of the product's pods, and the restarts of their containers.
async fn ours(product: &Product) -> Vec<(String, i32)> {
    let mut found = Vec::new();
    for namespace in [names::NAMESPACE, names::AGENT_NAMESPACE] {
        let pods = product.list(namespace).await;
        found.extend(pods.iter().map(|pod| (pod.name_any(), containers::restarts(pod))));
    }
    found
}

/// Memory of this machine at the start, in bytes.
struct Machine {
    total: u64,
    available: u64,
}

impl Machine {
    fn read() -> Self {
        let text = fs::read_to_string("/proc/meminfo").expect("read /proc/meminfo");
        let field = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .expect("a field");
            let kib = line
                .split_whitespace()
                .next()
                .and_then(|kib| kib.parse::<u64>().ok());
            kib.expect("a number") << 10
        };
        let total = field("MemTotal:");
        let cache = field("Cached:") + field("Buffers:") - field("Inactive(file):");
        let machine = Self {
            total,
            // A kubelet counts the active page cache as used.
            available: field("MemAvailable:").min(total - field("AnonPages:") - cache),
        };
        assert!(
            machine.available >= machine.eaten() + KEPT,
            "the machine has {} bytes available, and the test uses {}",
            machine.available,
            machine.eaten()
        );
        machine
    }

    /// Hard threshold of eviction.
    fn threshold(&self) -> u64 {
        self.available - ABOVE_THRESHOLD
    }

    /// Memory that the pod uses, a multiple of 1 GiB. The kubelet counts the memory of this node alone.
    fn eaten(&self) -> u64 {
        (self.total - self.threshold() + BEYOND).next_multiple_of(GIB)
    }

    /// A pod that uses this memory. Its limit protects the machine.
    fn eater(&self) -> Pod {
        // A single tail of busybox cannot hold more than 2 GiB.
        let script = format!(
            "for i in $(seq {}); do {{ head -c {GIB} /dev/zero; sleep 1000000; }} | tail & done; wait",
            self.eaten() / GIB
        );
        let resources = json!({
            "limits": {"memory": (self.eaten() + BEYOND).to_string()},
            "requests": {"memory": "64Mi"},
        });
        pods::script(EATER, &script, &resources).expect("a pod")
    }

    async fn start(&self) -> Product {
        let threshold = self.threshold().to_string();
        Product::start(ProductOptions {
            node: RealNodeOptions {
                kubelet: json!({
                    "evictionHard": {"memory.available": threshold},
                    "evictionPressureTransitionPeriod": "20s",
                }),
                ..RealNodeOptions::new(NODE)
            },
            changes: Changes {
                webhook_args: vec![DEMO_TIMING.to_owned()],
                agent_args: vec![
                    "--timing=demo".to_owned(),
                    format!("--eviction-hard-memory={threshold}"),
                ],
                configuration: Some("amplification: {bounds: {memory: {max: 1.5}}}\n".to_owned()),
                ..Changes::default()
            },
        })
        .await
    }
}

fn has_pressure(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "MemoryPressure" && condition.status == "True")
}

/// Allocatable memory in bytes.
fn memory(node: &Node) -> u64 {
    let allocatable = node
        .status
        .as_ref()
        .and_then(|status| status.allocatable.as_ref());
    let quantity = allocatable.expect("allocatable")["memory"]
        .0
        .parse()
        .expect("a quantity");
    amount(Resource::Memory, &quantity).expect("an amount")
}
