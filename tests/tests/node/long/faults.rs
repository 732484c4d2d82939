//! Tests of faults of the product's pods and of containerd on a full node. One installation serves several checks.

use super::{agent_ends, containerd, full_node::FullNode, replaced_webhook, rolled_back};

#[ignore = "minutes: cargo xtask test --long real-node"]
#[tokio::test(flavor = "multi_thread")]
async fn full_node_survives_the_loss_of_webhook_and_containerd() {
    let mut node = FullNode::annotated().await;
    let containers = node.containers().await;
    containerd::restart_keeps_pods_and_their_accounts(&mut node).await;
    println!("containerd: passed");
    rolled_back::broken_webhook_is_rolled_back(&mut node).await;
    println!("broken webhook: passed");
    replaced_webhook::rollout_under_load_fails_no_request(&mut node).await;
    println!("replaced webhook: passed");
    assert_eq!(node.containers().await, containers, "no fault ended a pod");
    node.product.node.check().expect("all daemons run");
}

#[ignore = "minutes: cargo xtask test --long real-node"]
#[tokio::test(flavor = "multi_thread")]
async fn full_node_survives_the_loss_of_the_agent() {
    let mut node = FullNode::measured().await;
    let containers = node.containers().await;
    agent_ends::agent_out_of_memory_keeps_the_brake(&mut node).await;
    println!("agent out of memory: passed");
    agent_ends::killed_agent_continues_its_history(&mut node).await;
    println!("killed agent: passed");
    rolled_back::broken_agent_is_rolled_back(&mut node).await;
    println!("broken agent: passed");
    assert_eq!(node.containers().await, containers, "no fault ended a pod");
    node.product.node.check().expect("all daemons run");
}
