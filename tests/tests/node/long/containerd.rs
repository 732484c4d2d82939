//! Check of a restart of containerd: pods keep running, and the agent keeps what it has measured of them.

use headroom_domain::resource::Resource;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};

use super::{containers::restarts, full_node::FullNode};

pub(super) async fn restart_keeps_pods_and_their_accounts(node: &mut FullNode) {
    let containers = node.containers().await;
    let pods = Api::<Pod>::all(node.product.client.clone());
    let pods = pods
        .list(&ListParams::default())
        .await
        .expect("list pods")
        .items
        .len();
    let before = node
        .product
        .status_until("the agent reads the cgroups of all pods", |status| {
            usize::try_from(status.pods.tracked).is_ok_and(|tracked| tracked == pods)
        })
        .await;
    let agent = node.product.agent().await;
    let warm = |status: &headroom_agent::local::status::Status| {
        status.resource(Resource::Cpu).map(|part| part.warm_requests)
    };
    node.product
        .node
        .restart_containerd()
        .await
        .expect("restart containerd");
    node.product
        .until("the kubelet reaches containerd again", async || {
            let logs = node.product.kubectl(&["exec", "first", "--", "true"]);
            logs.status.success()
        })
        .await;
    let after = node
        .product
        .status_until("the agent has sent another report", |status| {
            status.seq > before.seq + 2
        })
        .await;
    assert_eq!(
        (after.pods.tracked, after.pods.unreadable),
        (before.pods.tracked, 0)
    );
    assert!(
        warm(&after) >= warm(&before),
        "{:?} after {:?}",
        warm(&after),
        warm(&before)
    );
    assert_eq!(restarts(&node.product.agent().await), restarts(&agent));
    assert_eq!(node.containers().await, containers);
    node.amounts_within_bounds().await;
}
