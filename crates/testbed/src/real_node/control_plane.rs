//! The control plane's side of a node: credentials of its daemons, the address of the API server for pods, and the health of its
//! kubelet through the API server.

use std::{net::Ipv4Addr, path::PathBuf};

use anyhow::{Context as _, Result};
use http::Request;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{gateway::API_PORT, kubelet::Credentials, network::Network};
use crate::cluster::{Cluster, NODES};

/// User with the rights of kube-proxy.
const PROXY_USER: &str = "system:kube-proxy";

/// Writes the credentials of the kubelet.
pub(super) fn write_credentials(cluster: &Cluster, node: &str, network: Network) -> Result<Credentials> {
    let [certificate, key] = cluster.kubelet_certificate(node, network.node())?;
    Ok(Credentials {
        kubeconfig: cluster.kubeconfig_via(&url(network), &format!("system:node:{node}"), Some(NODES))?,
        ca: cluster.ca_file(),
        certificate,
        key,
    })
}

/// Sets the address of the API server for pods: the endpoints of the Service `kubernetes`, which the API server does not set
/// itself here.
pub(super) async fn publish_address(client: &Client, address: Ipv4Addr) -> Result<()> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": { "name": "kubernetes", "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": API_PORT, "protocol": "TCP" }],
    });
    let params = PatchParams::apply("headroom-testbed").force();
    let applied = slices.patch("kubernetes", &params, &Patch::Apply(slice)).await;
    applied.map(drop).context("publish the address of the API server")
}

/// Writes the kubeconfig of kube-proxy.
pub(super) fn write_proxy_kubeconfig(cluster: &Cluster, network: Network) -> Result<PathBuf> {
    cluster.kubeconfig_via(&url(network), PROXY_USER, None)
}

fn url(network: Network) -> String {
    format!("https://{}:{API_PORT}", network.node())
}

/// True if the kubelet answers the API server that it is healthy.
pub(super) async fn is_healthy(client: &Client, node: &str) -> bool {
    let path = format!("/api/v1/nodes/{node}/proxy/healthz");
    match Request::get(path).body(Vec::new()) {
        Ok(request) => client.request_text(request).await.is_ok(),
        Err(_) => false,
    }
}
