//! Tests of the end of a real node: nothing of it remains after a SIGKILL of its owner.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use e2e::node_traces::Traces;
use headroom_testbed::{cluster::client_of, real_node::pods};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::Value;
use xtask::launch;

/// Binary behind `cargo xtask cluster`.
const CLUSTER: &str = "headroom-cluster";
/// Limit for the removal of cgroups and files of killed processes.
const REMOVED_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_remains_of_the_node_of_a_killed_owner() {
    launch::ensure(&[CLUSTER], false).expect("build the cluster's program");
    let mut owner = Owner::start();
    let client = client_of(&owner.kubeconfig).await.expect("client");
    let pod = pods::idle("idle", &Value::Null).expect("pod");
    pods::run(&Api::<Pod>::default_namespaced(client), &pod)
        .await
        .expect("run a pod");
    let before = owner.traces.list();
    for expected in ["interface", "/sys/fs/cgroup", "cmdline", "mountinfo"] {
        assert!(
            before.iter().any(|trace| trace.contains(expected)),
            "{expected}: {before:#?}"
        );
    }

    owner.process.kill().expect("SIGKILL");
    owner.process.wait().expect("the end");
    owner.traces.await_none(REMOVED_WITHIN);
}

/// A process of `cargo xtask cluster --real`.
struct Owner {
    process: Child,
    kubeconfig: PathBuf,
    traces: Traces,
}

impl Owner {
    fn start() -> Self {
        let mut process = Command::new(launch::folder(false).join(CLUSTER))
            .arg("--real")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the owner");
        let output = BufReader::new(process.stdout.take().expect("output"));
        let messages = BufReader::new(process.stderr.take().expect("messages"));
        let mut lines = output.lines().map(|line| line.expect("a line"));
        let kubeconfig = lines.find_map(|line| line.strip_prefix("export KUBECONFIG=").map(PathBuf::from));
        let mut lines = messages.lines().map(|line| line.expect("a line"));
        let named = lines.find_map(|line| {
            let (interface, logs) = line
                .strip_prefix("Interface and logs of the node: ")?
                .split_once(", ")?;
            Some((interface.to_owned(), PathBuf::from(logs)))
        });
        let (interface, logs) = named.expect("the owner prints the place of the logs");
        Self {
            process,
            kubeconfig: kubeconfig.expect("the node got ready"),
            traces: Traces::new(logs.parent().expect("a folder"), interface),
        }
    }
}
