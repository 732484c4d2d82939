//! Tests of the control plane for tests and the demo: nodes report the given amounts, pods run, and nothing remains
//! afterwards.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use e2e::stand::until;
use headroom_testbed::cluster::{Cluster, ClusterOptions, NodeOptions};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Node, Pod},
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use xtask::launch;

/// Binary behind `cargo xtask cluster`.
const CLUSTER: &str = "headroom-cluster";

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn full_cluster_runs_a_deployments_pods_and_leaves_no_trace() {
    let mut cluster = Cluster::start(ClusterOptions::full()).await.expect("cluster");
    let options = NodeOptions {
        cpus: 6,
        memory_bytes: 10_000 * MIB,
        reserved_cpu_milli: 150,
        reserved_memory_bytes: 500 * MIB,
        ..NodeOptions::new("hollow-0")
    };
    cluster.start_node(options).await.expect("node");
    let client = cluster.client().await.expect("client");

    let node = Api::<Node>::all(client.clone())
        .get("hollow-0")
        .await
        .expect("Node");
    assert_eq!(amounts(&node), ["6", "10000Mi", "5850m", "9500Mi"]);

    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments
        .create(&PostParams::default(), &deployment(3))
        .await
        .expect("create a Deployment");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    until("three pods run on the node", || async {
        running_on(&pods, "hollow-0").await == 3
    })
    .await;

    cluster.restart_node("hollow-0").expect("restart the kubelet");
    deployments
        .patch_scale(
            "web",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"replicas": 4}})),
        )
        .await
        .expect("scale");
    until("the new kubelet runs a fourth", || async {
        running_on(&pods, "hollow-0").await == 4
    })
    .await;

    let folder = cluster.dir().to_owned();
    // Files that the kubelet's fixture creates in /tmp are in the node's folder.
    for name in ["kubelet", "static-pods", "pod-logs"] {
        assert!(folder.join("hollow-0").join(name).is_dir(), "{name}");
    }
    let left = fixtures_left(&log_of_node(&folder));
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(
        processes_of(&folder).len(),
        6,
        "etcd, API server, scheduler, controllers, kubelet, janitor"
    );
    drop(cluster);
    assert_eq!(processes_of(&folder), [0; 0]);
    assert!(!folder.exists());
}

/// Fixtures that the kubelet's log names as created and that still exist.
fn fixtures_left(log: &str) -> Vec<PathBuf> {
    let made = log
        .split_whitespace()
        .map(|word| PathBuf::from(word.trim_matches('"')))
        .filter(|path| path.starts_with("/tmp") && path.to_string_lossy().contains("/hollow-kubelet."));
    let made: Vec<PathBuf> = made.collect();
    assert!(!made.is_empty(), "the log names what was made");
    made.into_iter().filter(|path| path.exists()).collect()
}

fn log_of_node(folder: &Path) -> String {
    fs::read_to_string(folder.join("hollow-0.log")).expect("the kubelet's log")
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_and_credentials_are_readable_only_by_their_owner() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("cluster");
    cluster.kubeconfig_for("user", None).expect("a kubeconfig");
    let mode = |path: &Path| {
        let metadata = fs::metadata(path).expect("something there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(cluster.dir()), 0o700);
    assert_eq!(mode(cluster.kubeconfig()), 0o600);
    let mut credentials = 0;
    for entry in fs::read_dir(cluster.dir()).expect("its folder") {
        let path = entry.expect("an entry").path();
        if path
            .extension()
            .is_some_and(|end| end == "key" || end == "kubeconfig")
        {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            credentials += 1;
        }
    }
    assert!(
        credentials >= 5,
        "admin, user, API server, accounts: {credentials}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_api_server_keeps_its_address_and_data() {
    let mut cluster = Cluster::start(ClusterOptions::default()).await.expect("cluster");
    let client = cluster.client().await.expect("client");
    let namespaces: Api<Namespace> = Api::all(client);
    let object = serde_json::from_value(json!({"metadata": {"name": "kept"}})).expect("a Namespace");
    namespaces
        .create(&PostParams::default(), &object)
        .await
        .expect("create");

    cluster.stop_apiserver().expect("stop");
    assert!(namespaces.get("kept").await.is_err());
    cluster.start_apiserver().await.expect("start");
    until("the old client reads the old object", || async {
        namespaces.get("kept").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_may_change_itself_and_no_other() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("cluster");
    let nodes: Api<Node> = Api::all(cluster.client().await.expect("client"));
    for name in ["own", "other"] {
        let object = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a Node");
        nodes
            .create(&PostParams::default(), &object)
            .await
            .expect("create");
    }
    let nodes: Api<Node> = Api::all(cluster.client_for_node("own").await.expect("client"));
    let status = Patch::Strategic(json!({"status": {"allocatable": {"cpu": "1"}}}));
    nodes
        .patch_status("own", &PatchParams::default(), &status)
        .await
        .expect("its own status");
    let refused = nodes
        .patch_status("other", &PatchParams::default(), &status)
        .await
        .expect_err("another's status");
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_is_removed_when_its_owner_is_killed() {
    let (mut owner, folder) = cluster_of_its_own();
    owner.kill().expect("kill -9");
    owner.wait().expect("wait");
    until("the processes have ended", || async {
        processes_of(&folder).is_empty()
    })
    .await;
    until("the folder is deleted", || async { !folder.exists() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_cluster_in_order() {
    let (mut owner, folder) = cluster_of_its_own();
    kill_process(Pid::from_child(&owner), Signal::INT).expect("Ctrl-C");
    assert!(owner.wait().expect("wait").success());
    assert_eq!(processes_of(&folder), [0; 0]);
    assert!(!folder.exists());
}

/// Binary behind `cargo xtask cluster`, ready, and the folder of its cluster.
fn cluster_of_its_own() -> (Child, PathBuf) {
    launch::ensure(&[CLUSTER], false).expect("build it");
    let mut owner = Command::new(launch::folder(false).join(CLUSTER))
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo xtask cluster");
    let output = BufReader::new(owner.stdout.take().expect("output"));
    let mut lines = output.lines().map(|line| line.expect("a line"));
    let kubeconfig = lines.find_map(|line| line.strip_prefix("export KUBECONFIG=").map(PathBuf::from));
    let folder = kubeconfig
        .expect("it got ready")
        .parent()
        .expect("folder")
        .to_owned();
    assert_eq!(processes_of(&folder).len(), 6);
    (owner, folder)
}

/// Everything that a cluster starts names its folder on its command line.
fn processes_of(folder: &Path) -> Vec<u32> {
    let folder = folder.to_str().expect("UTF-8");
    let entries = fs::read_dir("/proc")
        .expect("/proc")
        .map(|entry| entry.expect("an entry"));
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let names_it = |pid: &u32| {
        // A process may end while it is read. A zombie has no command line and counts as ended.
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(folder)
    };
    pids.filter(names_it).collect()
}

fn deployment(replicas: u32) -> Deployment {
    let object = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}]},
            },
        },
    });
    serde_json::from_value(object).expect("a Deployment")
}

async fn running_on(pods: &Api<Pod>, node: &str) -> usize {
    let params = ListParams::default().fields(&format!("spec.nodeName={node},status.phase=Running"));
    pods.list(&params).await.map_or(0, |pods| pods.items.len())
}

/// Capacity and allocatable: CPU, memory, CPU, memory.
fn amounts(node: &Node) -> [&str; 4] {
    let status = node.status.as_ref().expect("status");
    let capacity = status.capacity.as_ref().expect("capacity");
    let allocatable = status.allocatable.as_ref().expect("allocatable");
    [
        &capacity["cpu"].0,
        &capacity["memory"].0,
        &allocatable["cpu"].0,
        &allocatable["memory"].0,
    ]
}
