//! Pods for a real node: an idle pod, and loads of CPU and memory.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

/// Image with busybox and its commands.
pub const BUSYBOX: &str = "localhost/busybox:1";
/// Memory that a process of [`eater`] holds at most: busybox's tail fails with 2 GiB.
const MOST_OF_A_PROCESS: u64 = 1 << 30;
const START_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// A pod of one container, which runs a shell script.
///
/// # Errors
/// If it is no valid Pod.
pub fn script(name: &str, script: &str, resources: &Value) -> Result<Pod> {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            // Its shell is the init process of the container, which ignores SIGTERM.
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "busybox",
                "image": BUSYBOX,
                "command": ["sh", "-c", script],
                "resources": resources,
            }],
        },
    });
    serde_json::from_value(pod).context("make a Pod")
}

/// A pod that sleeps.
///
/// # Errors
/// Errors of [`script`].
pub fn idle(name: &str, resources: &Value) -> Result<Pod> {
    script(name, "sleep 1000000", resources)
}

/// A pod that keeps this number of CPUs busy.
///
/// # Errors
/// Errors of [`script`].
pub fn burner(name: &str, threads: u32, resources: &Value) -> Result<Pod> {
    let text = format!(
        "i=1; while [ $i -lt {threads} ]; do (while :; do :; done) & i=$((i+1)); done; while :; do :; done"
    );
    script(name, &text, resources)
}

/// A pod that holds this amount of memory.
///
/// # Errors
/// Errors of [`script`].
pub fn eater(name: &str, bytes: u64, resources: &Value) -> Result<Pod> {
    let processes = bytes.div_ceil(MOST_OF_A_PROCESS).max(1);
    let each = bytes / processes;
    // tail keeps the last line of its input, and this one has no end.
    let text = format!(
        "for i in $(seq {processes}); do {{ head -c {each} /dev/zero; sleep 1000000; }} | tail & done; wait"
    );
    script(name, &text, resources)
}

/// Creates the pod, and waits until it runs.
///
/// # Errors
/// If the API server refuses it, or it is not running within 60 s; the message has its status.
pub async fn run(pods: &Api<Pod>, pod: &Pod) -> Result<Pod> {
    let created = pods.create(&PostParams::default(), pod).await;
    let created = created.with_context(|| format!("create pod {}", pod.name_any()))?;
    await_running(pods, &created.name_any()).await
}

/// Waits until all containers of the pod are ready.
///
/// # Errors
/// If the pod does not exist, or its containers are not ready within 60 s; the message has its status.
pub async fn await_running(pods: &Api<Pod>, name: &str) -> Result<Pod> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let pod = pods.get(name).await.with_context(|| format!("read pod {name}"))?;
        if is_running(&pod) {
            return Ok(pod);
        }
        if Instant::now() > deadline {
            let status = serde_json::to_string(&pod.status).context("print the status of a pod")?;
            bail!(
                "pod {name} is not running after {} s: {status}",
                START_LIMIT.as_secs()
            );
        }
        sleep(POLL).await;
    }
}

fn is_running(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
