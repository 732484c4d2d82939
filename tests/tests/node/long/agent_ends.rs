//! Checks of an agent that ends: by SIGKILL, and because it is out of memory. The kubelet restarts it, it continues from its
//! checkpoint, and allocatable does not rise meanwhile.

use std::{
    process::{Child, Stdio},
    thread::available_parallelism,
    time::Duration,
};

use e2e::product::Product;
use headroom_agent::local::status::{HistoryStatus, Status};
use headroom_testbed::real_node::pods;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::Value;
use tokio::time::sleep;

use super::{
    containers::{restarts, status, waits_for},
    full_node::{FullNode, assert_no_rise},
};

const BURNER: &str = "burner";
/// Time within which a report of an agent that has ended may still raise allocatable.
const IN_FLIGHT: Duration = Duration::from_secs(2);

/// The agent has ended before, so the kubelet delays its restart by 10 s. Later restarts are delayed for longer than the compressed
/// history covers.
pub(super) async fn killed_agent_continues_its_history(node: &mut FullNode) {
    let before = accepted_status(&node.product).await;
    let first = node.product.agent().await;
    node.product.process(&first).signal("KILL");
    check_absence(node).await;
    await_restart(&node.product, restarts(&first) + 1).await;
    let after = accepted_status(&node.product).await;
    assert_continued(&before.history, &after.history);
    check_steps(node).await;
}

/// Another process in the agent's cgroup uses all memory up to the agent's limit. The load on all CPUs keeps the ratio low: an agent
/// without its history would raise it.
pub(super) async fn agent_out_of_memory_keeps_the_brake(node: &mut FullNode) {
    let before = accepted_status(&node.product).await;
    let threads = available_parallelism().expect("a number").get();
    let burner =
        pods::burner(BURNER, u32::try_from(threads).expect("a number"), &Value::Null).expect("a pod");
    pods::run(&node.product.pods(), &burner)
        .await
        .expect("run the load");
    let one_percent = node.raw / 100;
    node.product
        .until("all free capacity is withdrawn", async || {
            node.free().await <= one_percent
        })
        .await;
    node.amounts_within_bounds().await;

    let agent = node.product.agent().await;
    let eater = MemoryEater::start(&node.product, &agent);
    let expected = restarts(&agent) + 1;
    node.product
        .until("the kernel ends the agent", async || {
            let terminated = status(&node.product.agent().await);
            let terminated = terminated.and_then(|status| {
                let ended = status.state.and_then(|state| state.terminated);
                ended.or_else(|| status.last_state?.terminated)
            });
            terminated.is_some_and(|end| end.reason.as_deref() == Some("OOMKilled"))
        })
        .await;
    drop(eater);
    await_restart(&node.product, expected).await;
    let after = accepted_status(&node.product).await;
    assert_continued(&before.history, &after.history);
    sleep(3 * IN_FLIGHT).await;
    let amounts = node.amounts_within_bounds().await;
    let highest = amounts.iter().max().copied().unwrap_or_default();
    let requested = crate::product::workload::requested(&node.product).await;
    assert!(
        highest <= requested + one_percent,
        "{amounts:?} with requests of {requested}m"
    );

    let at_once = DeleteParams::default().grace_period(0);
    node.product
        .pods()
        .delete(BURNER, &at_once)
        .await
        .expect("end the load");
    node.await_free(node.raw / 20).await;
    check_steps(node).await;
}

/// Allocatable does not rise while the kubelet delays the restart of the agent.
pub(super) async fn check_absence(node: &mut FullNode) {
    sleep(IN_FLIGHT).await;
    node.amounts_within_bounds().await;
    let mut amounts = vec![crate::product::workload::cpu(&node.product.stored_node().await)];
    sleep(2 * IN_FLIGHT).await;
    let agent = node.product.agent().await;
    assert!(
        waits_for(&agent).is_some(),
        "the agent is not running: {:#?}",
        agent.status
    );
    amounts.extend(node.amounts_within_bounds().await);
    assert_no_rise(&amounts);
}

/// No step up is higher than the greatest step of a ratio.
async fn check_steps(node: &mut FullNode) {
    let amounts = node.amounts_within_bounds().await;
    let step = node.raw / 20 + 1;
    assert!(
        amounts.is_sorted_by(|before, after| *after <= before + step),
        "{amounts:?} with steps of at most {step}m"
    );
}

/// Status of an agent whose report the webhook has accepted, and that has measured.
pub(super) async fn accepted_status(product: &Product) -> Status {
    product
        .status_until("the webhook accepts reports of the agent", |status| {
            status.measured.is_some()
                && status.streams.iter().any(|stream| {
                    stream
                        .last_ack
                        .as_ref()
                        .is_some_and(|ack| ack.verdict == "accepted")
                })
        })
        .await
}

/// The later history has the same beginning.
pub(super) fn assert_continued(before: &HistoryStatus, after: &HistoryStatus) {
    assert_eq!(before.beginning, after.beginning, "{before:#?}, {after:#?}");
    assert!(after.age_s >= before.age_s, "{before:#?}, {after:#?}");
}

async fn await_restart(product: &Product, number: i32) {
    product
        .until("the kubelet restarts the agent", async || {
            let agent = product.agent().await;
            restarts(&agent) == number && e2e::product::is_ready(&agent)
        })
        .await;
}

/// A process that uses memory in the cgroup of a container. The kernel kills the container's process first, because the kubelet has
/// raised the `oom_score_adj` of that process.
struct MemoryEater(Child);

impl MemoryEater {
    fn start(product: &Product, pod: &Pod) -> Self {
        let pid = product.process(pod).pid;
        // The line of cgroup v1's memory controller, or the only line of v2.
        let script = format!(
            r#"path=$(sed -n 's/^[0-9]*:memory://p' /proc/{pid}/cgroup)
            if [ "$path" ]; then root=/sys/fs/cgroup/memory; else root=/sys/fs/cgroup; path=$(sed -n 's/^0:://p' /proc/{pid}/cgroup); fi
            echo $$ >"$root$path/cgroup.procs" && head -c 1G /dev/zero | tail"#
        );
        let mut shell = product.node.enter("sh").expect("enter the node");
        shell.args(["-c", &script]).stdout(Stdio::null());
        Self(shell.spawn().expect("start a shell"))
    }
}

impl Drop for MemoryEater {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}
