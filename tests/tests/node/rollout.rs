//! Test of a rollout on a full node: the new pod of a DaemonSet gets the place of the old one.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    thread::available_parallelism,
    time::{Duration, Instant},
};

use e2e::product::{Changes, Product, ProductOptions, is_ready};
use headroom_domain::names;
use headroom_testbed::real_node::pods::{self, BUSYBOX};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::json;
use tokio::time::sleep;

use crate::product::workload::{cpu, requested};

/// Name of the DaemonSet, and the label `app` of its pods.
const DAEMON: &str = "daemon";
/// Request of its pod, in milli-cores. It is most of the slack of the node.
const REQUEST: u64 = 600;
/// CPU limit of the busy pod, in milli-cores. The slack of the other pods does not make up for the DaemonSet's pod that leaves.
const BUSY: u64 = 900;
/// Highest ratio, in hundredths: the node is full with few pods.
const HIGHEST: u64 = 110;
/// Milli-cores of raw allocatable that the first pods leave.
const LEFT: u64 = 50;
/// Time from the end of the old pod to the scheduler's next decision: more than one interval of the kubelet's writes.
const SCHEDULER_LATE: Duration = Duration::from_secs(15);

#[ignore = "hangs until the webhook keeps the capacity of a pod that a controller replaces"]
#[tokio::test(flavor = "multi_thread")]
async fn daemon_set_is_rolled_out_on_a_full_node() {
    let mut product = full_node().await;
    let began = Instant::now();
    let old = daemon_pods(&product).await.remove(0).name_any();
    // The new pod waits for a scheduler with other work, and the kubelet writes its status meanwhile.
    product
        .cluster
        .suspend_scheduler()
        .expect("suspend the scheduler");
    let restarted = product.kubectl(&["rollout", "restart", "daemonset", DAEMON]);
    assert!(restarted.status.success(), "{restarted:?}");
    product
        .until("the old pod is gone", async || {
            daemon_pods(&product)
                .await
                .iter()
                .all(|pod| pod.name_any() != old)
        })
        .await;
    println!("{:.1} s: the old pod is gone", began.elapsed().as_secs_f64());
    sleep(SCHEDULER_LATE).await;
    product
        .cluster
        .continue_scheduler()
        .expect("continue the scheduler");
    let mut last = String::new();
    product
        .until("the new pod runs", async || {
            let pods = daemon_pods(&product).await;
            let state = format!(
                "allocatable {}m, requested {}m, {}",
                cpu(&product.stored_node().await),
                requested(&product).await,
                phases(&pods)
            );
            if state != last {
                println!("{:.1} s: {state}", began.elapsed().as_secs_f64());
                last = state;
            }
            pods.iter().any(|pod| pod.name_any() != old && is_ready(pod))
        })
        .await;
}

/// A node whose pods request all of the amplified allocatable. One belongs to a DaemonSet, and one is busy.
async fn full_node() -> Product {
    let highest = format!("{}.{:02}", HIGHEST / 100, HIGHEST % 100);
    let changes = Changes {
        configuration: Some(format!(
            "amplification: {{mode: auto, bounds: {{cpu: {{max: {highest}}}}}}}\n"
        )),
        ..Changes::default()
    };
    let product = Product::start(ProductOptions {
        changes,
        ..ProductOptions::default()
    })
    .await;
    let raw = cpu(&product.stored_node().await);
    let daemons: Api<DaemonSet> = Api::default_namespaced(product.client.clone());
    let created = daemons.create(&PostParams::default(), &daemon()).await;
    created.expect("create a DaemonSet");
    product
        .until("its pod runs", async || {
            daemon_pods(&product).await.iter().any(is_ready)
        })
        .await;
    let threads = available_parallelism().expect("a number").get();
    let threads = u32::try_from(threads).expect("a number");
    let resources = json!({"requests": {"cpu": "500m"}, "limits": {"cpu": format!("{BUSY}m")}});
    let busy = pods::burner("busy", threads, &resources).expect("a pod");
    pods::run(&product.pods(), &busy).await.expect("run a pod");
    fill(&product, "first", raw - LEFT).await;
    product.annotate(names::MODE, "auto").await;
    let full = raw * HIGHEST / 100;
    product
        .until_idle("the node is amplified to its bound", async || {
            cpu(&product.stored_node().await) >= full
        })
        .await;
    fill(&product, "second", full).await;
    product
}

/// Runs an idle pod that requests all of this total that other pods leave.
async fn fill(product: &Product, name: &str, total: u64) {
    let request = total - requested(product).await;
    let pod = pods::idle(name, &json!({"requests": {"cpu": format!("{request}m")}})).expect("a pod");
    pods::run(&product.pods(), &pod).await.expect("run a pod");
}

async fn daemon_pods(product: &Product) -> Vec<Pod> {
    let pods = product
        .pods()
        .list(&ListParams::default().labels(&format!("app={DAEMON}")))
        .await;
    pods.expect("list pods").items
}

/// Phase of each pod, and whether it is being deleted.
fn phases(pods: &[Pod]) -> String {
    let phase = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let end = pod
            .metadata
            .deletion_timestamp
            .as_ref()
            .map_or("", |_| " and being deleted");
        format!("{} {}{end}", pod.name_any(), phase.unwrap_or_default())
    };
    pods.iter().map(phase).collect::<Vec<_>>().join(", ")
}

/// A DaemonSet of [`REQUEST`] whose pod needs 12 s to end.
fn daemon() -> DaemonSet {
    let labels = json!({"app": DAEMON});
    let daemon = json!({
        "metadata": {"name": DAEMON},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 12,
                    "automountServiceAccountToken": false,
                    "containers": [{
                        "name": "busybox",
                        "image": BUSYBOX,
                        // The init process of a container ignores SIGTERM.
                        "command": ["sh", "-c", "sleep 1000000"],
                        "resources": {"requests": {"cpu": format!("{REQUEST}m")}},
                    }],
                },
            },
        },
    });
    serde_json::from_value(daemon).expect("a DaemonSet")
}
