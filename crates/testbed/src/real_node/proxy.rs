//! The node's kube-proxy, which serves the addresses of Services in the node's network.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::{daemon::Daemon, network::Network, sandbox::Sandbox, state::State};

const HEALTH_PORT: u16 = 10_256;

#[derive(Debug)]
pub(super) struct Proxy {
    config: PathBuf,
    program: PathBuf,
    log: PathBuf,
    /// Address of its health endpoint.
    pub(super) health: SocketAddr,
}

impl Proxy {
    /// Writes the configuration.
    pub(super) fn configure(
        state: &State,
        sandbox: &Sandbox,
        network: Network,
        node: &str,
        kubeconfig: &Path,
    ) -> Result<Self> {
        let health = SocketAddr::from((network.node(), HEALTH_PORT));
        let config = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": { "kubeconfig": kubeconfig },
            "hostnameOverride": node,
            "healthzBindAddress": health,
            "clusterCIDR": network.pods().to_string(),
            "detectLocalMode": "ClusterCIDR",
            // The table of connections belongs to the whole machine.
            "conntrack": { "maxPerCore": 0 },
        });
        let path = state.folder().join("kube-proxy.json");
        fs::write(&path, format!("{config:#}\n")).with_context(|| format!("write {}", path.display()))?;
        Ok(Self {
            config: path,
            health,
            program: sandbox.program("kube-proxy"),
            log: state.folder().join("kube-proxy.log"),
        })
    }

    pub(super) fn start(&self, sandbox: &Sandbox) -> Result<Daemon> {
        let mut command = sandbox.enter(&self.program);
        command.arg(format!("--config={}", self.config.display()));
        Daemon::start("kube-proxy", &command, &self.log)
    }
}
