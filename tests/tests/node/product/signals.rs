//! Checks of the agent as a pod: its kernel programs, its signals, its stream, and the pods whose cgroups it reads.

use std::net::IpAddr;

use e2e::product::{NODE, Product};
use headroom_proto::status::{StreamState, StreamStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};

/// Mode of an agent that has measured a frame with all signals.
const FULL: &str = "FULL";
/// Health of a signal that this kernel does not have.
const UNSUPPORTED: &str = "unsupported";
/// Part of the reason for a file that version 1 of cgroups does not have.
const VERSION_1: &str = "which cgroup version 1 never has";

/// All kernel programs are attached, no signal has failed, and the webhook, found by DNS, answers reports.
pub(super) async fn agent_measures_as_a_pod(product: &Product) {
    let webhook = product.webhook().await;
    let address = webhook.status.as_ref().and_then(|status| status.pod_ip.clone());
    let address: IpAddr = address.expect("an address").parse().expect("an IP address");
    let status = product
        .status_until(
            "the agent has measured, and the webhook has accepted a report",
            |status| {
                let accepted = |stream: &StreamStatus| {
                    let is_accepted = stream
                        .last_ack
                        .as_ref()
                        .is_some_and(|ack| ack.verdict == "accepted");
                    stream.state == StreamState::Open && is_accepted
                };
                status.mode == FULL && status.pods.tracked > 0 && status.streams.iter().any(accepted)
            },
        )
        .await;
    let peers: Vec<IpAddr> = status.streams.iter().map(|stream| stream.peer.ip()).collect();
    assert_eq!(peers, [address]);
    assert_eq!(status.node, NODE);
    let node = product.stored_node().await;
    assert_eq!(Some(&status.node_uid), node.metadata.uid.as_ref());

    assert_eq!(
        (status.source.as_str(), status.mode.as_str()),
        ("ebpf", FULL),
        "{status:#?}"
    );
    for program in &status.programs {
        assert_eq!(program.health, "ok", "{program:#?}");
    }
    for signal in &status.signals {
        let kernel_lacks = |missing: &String| signal.health == UNSUPPORTED || missing.contains(VERSION_1);
        assert!(signal.missing.as_ref().is_none_or(kernel_lacks), "{signal:#?}");
    }
}

/// The agent finds a cgroup of each running pod, and of no other.
pub(super) async fn agent_reports_the_pods_of_the_kubelet(product: &Product) {
    let pods: Api<Pod> = Api::all(product.client.clone());
    let pods = pods.list(&ListParams::default()).await.expect("list pods").items;
    let status = product
        .status_until("the agent reads the cgroups of all pods", |status| {
            status.pods.tracked == u64::try_from(pods.len()).expect("a number")
        })
        .await;
    assert_eq!((status.pods.untracked, status.pods.unreadable), (0, 0));
}
