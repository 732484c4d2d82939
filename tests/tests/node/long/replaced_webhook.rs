//! Check of a rollout of the webhook while the Node's status is written and pods are created and deleted: the API server gets an answer
//! to each request, and allocatable stays between the requests of pods and the bound.

use std::time::Duration;

use headroom_domain::names;
use kube::ResourceExt as _;
use tokio::time::sleep;

use super::{agent_ends::accepted_status, full_node::FullNode, status_writer::StatusWriter};

/// Milli-cores that a new replica of the webhook requests.
const REPLICA: u64 = 100;
const ROLLOUTS: usize = 3;
/// Time for writes before and after a rollout.
const AROUND: Duration = Duration::from_secs(3);

pub(super) async fn rollout_under_load_fails_no_request(node: &mut FullNode) {
    node.amounts_within_bounds().await;
    let writer = StatusWriter::start(&node.product).await;
    for _ in 0..ROLLOUTS {
        node.await_free(REPLICA).await;
        sleep(AROUND).await;
        let old = node.product.webhook().await.name_any();
        for arguments in [
            &["rollout", "restart", "deployment/headroom-webhook"][..],
            &[
                "rollout",
                "status",
                "deployment/headroom-webhook",
                "--timeout=120s",
            ],
        ] {
            let output = node
                .product
                .kubectl(&[&["--namespace", names::NAMESPACE], arguments].concat());
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        }
        node.product.await_ready().await;
        let new = node.product.webhook().await;
        assert_ne!(new.name_any(), old);
        let address = new.status.and_then(|status| status.pod_ip);
        node.product
            .status_until("the agent reports to the new replica only", |status| {
                let mut peers = status.streams.iter().map(|stream| stream.peer.ip().to_string());
                peers.all(|peer| Some(&peer) == address.as_ref())
                    && status.streams.iter().any(|stream| stream.last_ack.is_some())
            })
            .await;
        accepted_status(&node.product).await;
    }
    sleep(AROUND).await;
    writer.finish("rollouts").await;
    node.amounts_within_bounds().await;
}
