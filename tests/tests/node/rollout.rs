//! Tests of rollouts on a full node: the new pod of a controller gets the place of the old one, as on a raw node.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests panic: a returned error has no stack"
)]

pub(crate) mod rolled_node;

use std::time::Duration;

use tokio::time::sleep;

use self::rolled_node::{Controller, RolledNode};

/// Name of the DaemonSet, and the label `app` of its pods.
const DAEMON: &str = "daemon";
/// Time from the end of the old pod to the scheduler's next decision: more than one interval of the kubelet's writes.
const SCHEDULER_LATE: Duration = Duration::from_secs(15);
/// Limit of the difference between the waits on the amplified node and on the raw one. The test reads pods every 100 ms, and the
/// scheduler retries after 1 s.
const LATER: Duration = Duration::from_secs(3);

/// The new pod waits for a scheduler with other work, and the kubelet writes its status meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn daemon_set_is_rolled_out_on_a_full_node() {
    let mut node = RolledNode::raw(&[], &[(DAEMON, Controller::DaemonSet.object(DAEMON, 12))]).await;
    let restart = ["rollout", "restart", "daemonset", DAEMON];
    let raw = node.roll(DAEMON, &restart).await;
    node.amplify().await;
    let old = node.uids_of(DAEMON).await;
    node.product
        .cluster
        .suspend_scheduler()
        .expect("suspend the scheduler");
    node.kubectl(&restart);
    node.product
        .until("the old pod is gone", async || {
            node.uids_of(DAEMON).await.iter().all(|uid| !old.contains(uid))
        })
        .await;
    sleep(SCHEDULER_LATE).await;
    node.product
        .cluster
        .continue_scheduler()
        .expect("continue the scheduler");
    let amplified = node.until_rolled(DAEMON, &old).await;
    println!("raw: {raw:?}; amplified: {amplified:?}");
    assert!(amplified.waited <= raw.waited + LATER);
    assert!(
        amplified.had_place,
        "the node had more room than the rollout needs"
    );
    assert_eq!(node.preempted().await, 0);
}
