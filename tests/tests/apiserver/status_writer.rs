//! Tests of the status writer, which keeps a testbed node, in front of a real API server: others see the same of the
//! node as of a kubelet's.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use e2e::stand::{allocatable, until};
use headroom_testbed::cluster::{Cluster, ClusterOptions, NodeBackend, NodeOptions};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const NODE: &str = "written-0";
const GIB: u64 = 1 << 30;

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_pod_runs_and_ends_when_deleted() {
    let mut cluster = Cluster::start(ClusterOptions::full()).await.expect("cluster");
    cluster.start_node(node()).await.expect("node");
    let client = cluster.client().await.expect("client");
    let pods: Api<Pod> = Api::default_namespaced(client);
    create(&pods, "first").await;
    until("the pod is Running and Ready", || is_running(&pods, "first")).await;

    cluster.restart_node(NODE).expect("restart the writer");
    create(&pods, "second").await;
    until("the new writer runs another", || is_running(&pods, "second")).await;
    pods.delete("first", &DeleteParams::default())
        .await
        .expect("delete");
    until("the pod is deleted", || async {
        pods.get_opt("first").await.expect("read the pod").is_none()
    })
    .await;

    cluster.stop_node(NODE).expect("stop the writer");
    cluster.start_node(node()).await.expect("the node again");
    assert!(is_running(&pods, "second").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_written_only_if_it_differs_from_the_stored_one() {
    let mut cluster = Cluster::start(ClusterOptions::default()).await.expect("cluster");
    cluster.start_node(node()).await.expect("node");
    let client = cluster.client().await.expect("client");
    let nodes: Api<Node> = Api::all(client.clone());
    let first = nodes.get(NODE).await.expect("Node");
    assert_eq!(allocatable(&first, "cpu"), "3800m");
    assert_eq!(allocatable(&first, "memory"), "7Gi");

    // Each renewal follows a read of the status, and no other client writes this Node.
    renewals(&client, 2).await;
    let still = nodes.get(NODE).await.expect("Node");
    assert_eq!(still.resource_version(), first.resource_version());

    let of_others = json!({"example.org/gpu": "1"});
    let mut status = json!({"status": {"capacity": of_others, "allocatable": of_others}});
    status["status"]["allocatable"]["cpu"] = json!("4560m");
    nodes
        .patch_status(NODE, &PatchParams::default(), &Patch::Strategic(status))
        .await
        .expect("amplify");
    until("allocatable is the node's own again", || async {
        allocatable(&nodes.get(NODE).await.expect("Node"), "cpu") == "3800m"
    })
    .await;
    let after = nodes.get(NODE).await.expect("Node");
    assert_eq!(
        allocatable(&after, "example.org/gpu"),
        "1",
        "what is not its own stays"
    );
    assert!(heartbeat(&after) > heartbeat(&first));

    // The writer does not end with the API server.
    cluster.stop_apiserver().expect("stop");
    cluster.start_apiserver().await.expect("start");
    renewals(&client, 1).await;
    cluster.check().expect("all runs");
}

fn node() -> NodeOptions {
    NodeOptions {
        backend: Some(NodeBackend::Writer),
        cpus: 4,
        memory_bytes: 8 * GIB,
        reserved_cpu_milli: 200,
        reserved_memory_bytes: GIB,
        ..NodeOptions::new(NODE)
    }
}

async fn create(pods: &Api<Pod>, name: &str) {
    let container = json!({"name": "main", "image": "none", "resources": {"requests": {"cpu": "1500m"}}});
    let object = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
    let object = serde_json::from_value(object).expect("a Pod");
    pods.create(&PostParams::default(), &object)
        .await
        .expect("create the pod");
}

async fn is_running(pods: &Api<Pod>, name: &str) -> bool {
    let status = pods.get(name).await.expect("read the pod").status;
    let status = serde_json::to_value(status).expect("a status");
    let has = |condition: &str| {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        conditions
            .filter(|it| it["status"] == "True")
            .any(|it| it["type"] == condition)
    };
    status["phase"] == "Running"
        && status["containerStatuses"][0]["ready"] == true
        && has("PodScheduled")
        && has("Ready")
}

/// Waits for that many renewals of the node's lease.
async fn renewals(client: &Client, count: usize) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let renewed_at = async || -> Option<MicroTime> {
        let lease = leases.get_opt(NODE).await.ok().flatten()?;
        let spec = lease.spec.expect("spec");
        assert_eq!(spec.holder_identity.as_deref(), Some(NODE));
        spec.renew_time
    };
    for _ in 0..count {
        let before = renewed_at().await;
        until("the lease is renewed", async || renewed_at().await > before).await;
    }
}

/// Heartbeat of the Ready condition, as text that sorts by time.
fn heartbeat(node: &Node) -> String {
    let conditions: Value = serde_json::to_value(&node.status).expect("a status")["conditions"].clone();
    let conditions = conditions.as_array().expect("conditions");
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "Ready")
        .expect("Ready");
    ready["lastHeartbeatTime"].as_str().expect("a time").to_owned()
}
