//! Checks of images that do not exist or do not start: the old replica of the webhook keeps serving, allocatable does not rise without
//! an agent, and `kubectl rollout undo` restores both.

use std::time::Duration;

use e2e::product::is_ready;
use headroom_domain::names;
use headroom_testbed::real_node::pods::BUSYBOX;
use kube::ResourceExt;
use tokio::time::sleep;

use super::{
    agent_ends::{accepted_status, assert_continued, check_absence},
    containers::waits_for,
    full_node::FullNode,
    status_writer::StatusWriter,
};

/// Images, and the kubelet's reasons why they do not run.
const BROKEN: [(&str, &[&str]); 2] = [
    ("headroom-webhook:missing", &["ErrImagePull", "ImagePullBackOff"]),
    (BUSYBOX, &["RunContainerError", "CrashLoopBackOff"]),
];
/// Milli-cores that a new replica of the webhook requests.
const REPLICA: u64 = 100;
const FOR: Duration = Duration::from_secs(10);

pub(super) async fn broken_webhook_is_rolled_back(node: &mut FullNode) {
    let old = node.product.webhook().await.name_any();
    for (image, reasons) in BROKEN {
        node.await_free(REPLICA).await;
        let writer = StatusWriter::start(&node.product).await;
        run(
            node,
            names::NAMESPACE,
            &[
                "set",
                "image",
                "deployment/headroom-webhook",
                &format!("webhook={image}"),
            ],
        );
        node.product
            .until("the new image does not run", async || {
                let pods = node.product.list(names::NAMESPACE).await;
                let mut others = pods.iter().filter(|pod| pod.name_any() != old);
                others.any(|pod| waits_for(pod).is_some_and(|reason| reasons.contains(&reason.as_str())))
            })
            .await;
        let before = accepted_status(&node.product).await.seq;
        sleep(FOR).await;
        assert!(
            accepted_status(&node.product).await.seq > before,
            "the agent reports to the old replica"
        );
        let pods = node.product.list(names::NAMESPACE).await;
        let serving: Vec<String> = pods
            .iter()
            .filter(|pod| is_ready(pod))
            .map(ResourceExt::name_any)
            .collect();
        assert_eq!(serving, [old.as_str()]);

        run(
            node,
            names::NAMESPACE,
            &["rollout", "undo", "deployment/headroom-webhook"],
        );
        node.product.await_ready().await;
        assert_eq!(
            node.product.webhook().await.name_any(),
            old,
            "the old replica is never replaced"
        );
        writer.finish(image).await;
        node.amounts_within_bounds().await;
    }
}

pub(super) async fn broken_agent_is_rolled_back(node: &mut FullNode) {
    let before = accepted_status(&node.product).await;
    let old = node.product.agent().await.name_any();
    let image = format!("agent={BUSYBOX}");
    run(
        node,
        names::AGENT_NAMESPACE,
        &["set", "image", "daemonset/headroom-agent", &image],
    );
    node.product
        .until("the new image does not run", async || {
            let pods = node.product.list(names::AGENT_NAMESPACE).await;
            !pods.is_empty()
                && pods.iter().all(|pod| {
                    pod.name_any() != old
                        && waits_for(pod).is_some_and(|reason| BROKEN[1].1.contains(&reason.as_str()))
                })
        })
        .await;
    check_absence(node).await;
    run(
        node,
        names::AGENT_NAMESPACE,
        &["rollout", "undo", "daemonset/headroom-agent"],
    );
    node.product.await_ready().await;
    let after = accepted_status(&node.product).await;
    assert_continued(&before.history, &after.history);
    node.await_free(REPLICA).await;
    node.amounts_within_bounds().await;
}

/// Runs kubectl in a namespace.
fn run(node: &FullNode, namespace: &str, arguments: &[&str]) {
    let output = node
        .product
        .kubectl(&[&["--namespace", namespace], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}
