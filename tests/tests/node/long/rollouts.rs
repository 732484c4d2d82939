//! Test of rollouts of many kinds on one full node: no pod waits longer than on the raw node, and brakes still win.

use std::{
    thread::available_parallelism,
    time::{Duration, Instant},
};

use e2e::product::is_ready;
use headroom_domain::{hint::Brake, names, resource::Resource};
use headroom_proto::status::Status;
use headroom_testbed::real_node::pods;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    product::workload::cpu,
    rollout::rolled_node::{Controller, REQUEST, RolledNode, Rollout, local_volume},
};

/// Seconds that a pod of each DaemonSet needs to end.
const GRACES: [(&str, u32); 2] = [("daemon-a", 60), ("daemon-b", 12)];
/// A DaemonSet of less than 5 % of raw allocatable.
const SMALL: &str = "small";
const SMALL_MILLI: u64 = 90;
/// Limit of the difference between the waits on the amplified node and on the raw one.
const LATER: Duration = Duration::from_secs(3);
/// Time in which a pod without a place stays unbound.
const UNPLACED: Duration = Duration::from_secs(10);

/// Rollouts by kubectl's arguments, with the name of the controller.
const ROLLOUTS: [(&str, &[&str]); 6] = [
    ("daemon-a", &["rollout", "restart", "daemonset", "daemon-a"]),
    ("daemon-b", &["rollout", "restart", "daemonset", "daemon-b"]),
    ("daemon-b", &["set", "env", "daemonset/daemon-b", "VERSION=2"]),
    ("daemon-b", &["rollout", "undo", "daemonset/daemon-b"]),
    ("web", &["rollout", "restart", "deployment", "web"]),
    ("store", &["rollout", "restart", "statefulset", "store"]),
];

#[ignore = "minutes: cargo xtask test --long real-node"]
#[tokio::test(flavor = "multi_thread")]
async fn rollouts_on_a_full_node_wait_no_longer_than_on_a_raw_one() {
    let volume = tempfile::tempdir().expect("a directory");
    let path = volume.path().to_str().expect("a path in UTF-8");
    let mut controllers = Vec::new();
    controllers.extend(GRACES.map(|(name, grace)| (name, Controller::DaemonSet.object(name, grace))));
    controllers.push((SMALL, Controller::DaemonSet.with_request(SMALL, 2, SMALL_MILLI)));
    controllers.push(("web", Controller::Deployment.object("web", 2)));
    controllers.push(("store", Controller::StatefulSet.object("store", 2)));
    let mut node = RolledNode::raw(&[local_volume(path)], &controllers).await;
    let raw = rollouts(&node).await;
    agent_rollout(&node).await;
    node.amplify().await;
    let amplified = rollouts(&node).await;
    for ((name, arguments), (raw, amplified)) in ROLLOUTS.iter().zip(raw.iter().zip(&amplified)) {
        println!("{name} {arguments:?}: raw {raw:?}, amplified {amplified:?}");
        assert!(amplified.waited <= raw.waited + LATER, "{name} {arguments:?}");
    }
    assert!(
        amplified.iter().any(|rollout| rollout.had_place),
        "the node had more room than rollouts need"
    );
    agent_rollout(&node).await;
    webhook_restarts_before_the_successor_binds(&mut node).await;
    brakes_win(&mut node).await;
    assert_eq!(node.preempted().await, 0);
}

async fn rollouts(node: &RolledNode) -> Vec<Rollout> {
    let mut all = Vec::new();
    for (name, arguments) in ROLLOUTS {
        all.push(node.roll(name, arguments).await);
    }
    all
}

/// The agent's own pod returns, and no other pod has to make room for it.
async fn agent_rollout(node: &RolledNode) {
    let old = node.product.agent().await.name_any();
    node.kubectl(&[
        "--namespace",
        names::AGENT_NAMESPACE,
        "rollout",
        "restart",
        "daemonset/headroom-agent",
    ]);
    let began = Instant::now();
    node.product
        .until("a new agent is Ready", async || {
            let pods = node.product.list(names::AGENT_NAMESPACE).await;
            pods.len() == 1 && pods.iter().all(|pod| is_ready(pod) && pod.name_any() != old)
        })
        .await;
    println!("the agent's rollout took {:?}", began.elapsed());
    let events = node.product.events(names::AGENT_NAMESPACE).await;
    assert!(
        events.iter().all(|(reason, _)| reason != "Preempted"),
        "{events:?}"
    );
}

/// Milli-cores of the places of DaemonSets that the webhook has recorded.
fn recorded(node: &Node) -> u64 {
    let marker = node.annotations().get(names::MARKER).expect("a marker");
    let marker: Value = serde_json::from_str(marker).expect("JSON");
    marker["from"]["cpu"]["places"]["daemonSets"]
        .as_u64()
        .unwrap_or(0)
}

/// The only replica ends after the old pod has left: the next one reads the place from the Node.
async fn webhook_restarts_before_the_successor_binds(node: &mut RolledNode) {
    const NAME: &str = "daemon-b";
    let old = node.uids_of(NAME).await;
    let webhook = node.product.webhook().await;
    node.product
        .cluster
        .suspend_scheduler()
        .expect("suspend the scheduler");
    node.kubectl(&["rollout", "restart", "daemonset", NAME]);
    node.product
        .until("the old pod is gone, and its place is on record", async || {
            let has_left = node.uids_of(NAME).await.iter().all(|uid| !old.contains(uid));
            let stored = node.product.stored_node().await;
            has_left && recorded(&stored) >= REQUEST
        })
        .await;
    node.product.process(&webhook).signal("KILL");
    node.product
        .until("the webhook has restarted", async || {
            let pods = node.product.list(names::NAMESPACE).await;
            let restarts = |pod: &Pod| {
                let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
                Some(statuses.first()?.restart_count > 0)
            };
            pods.iter()
                .any(|pod| is_ready(pod) && restarts(pod) == Some(true))
        })
        .await;
    // More than one interval of the kubelet's writes, which the new replica decides.
    sleep(Duration::from_secs(15)).await;
    node.product
        .cluster
        .continue_scheduler()
        .expect("continue the scheduler");
    let rollout = node.until_rolled(NAME, &old).await;
    assert!(rollout.waited <= LATER, "{rollout:?}");
}

/// Under L3 a small DaemonSet and the agent come back, and a pod that can run anywhere does not until it fits the raw node.
async fn brakes_win(node: &mut RolledNode) {
    let threads = available_parallelism().expect("a number").get();
    let burner =
        pods::burner("burner", u32::try_from(threads).expect("a number"), &Value::Null).expect("a pod");
    pods::run(&node.product.pods(), &burner)
        .await
        .expect("run the load");
    node.product
        .status_until("the CPU brake is at L3", is_stopped)
        .await;
    let small = node
        .roll(SMALL, &["rollout", "restart", "daemonset", SMALL])
        .await;
    println!("under L3: {small:?}");
    assert!(small.waited <= LATER, "{small:?}");
    agent_rollout(node).await;
    node.product
        .status_until("the CPU brake is at L3 again", is_stopped)
        .await;
    let old = node.uids_of("web").await;
    let name = node.pods_of("web").await.remove(0).name_any();
    // A scheduler that acts at once binds the next pod before the webhook has lowered allocatable.
    node.product
        .cluster
        .suspend_scheduler()
        .expect("suspend the scheduler");
    let delete = DeleteParams::default();
    node.product
        .pods()
        .delete(&name, &delete)
        .await
        .expect("delete a pod");
    node.product
        .until("the place is not kept", async || {
            let has_left = node.uids_of("web").await.iter().all(|uid| !old.contains(uid));
            has_left && cpu(&node.product.stored_node().await) == node.raw
        })
        .await;
    node.product
        .cluster
        .continue_scheduler()
        .expect("continue the scheduler");
    sleep(UNPLACED).await;
    let pods = node.pods_of("web").await;
    let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    assert!(!pods.iter().any(is_bound), "the pod fits without a place");
    // It waits for room as on a raw node: until another pod leaves.
    let at_once = DeleteParams::default().grace_period(0);
    for name in ["burner", "second"] {
        let deleted = node.product.pods().delete(name, &at_once).await;
        deleted.expect("delete a pod");
    }
    node.product
        .until("the pod returns", async || {
            node.pods_of("web").await.iter().all(is_ready)
        })
        .await;
}

/// True while the agent's CPU brake is at L3.
fn is_stopped(status: &Status) -> bool {
    let cpu = status
        .resources
        .iter()
        .find(|part| part.name == Resource::Cpu.name());
    cpu.is_some_and(|cpu| cpu.brake == Brake::Stop.level())
}
