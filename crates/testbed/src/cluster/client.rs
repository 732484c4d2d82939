//! Makes a client from a kubeconfig.

use std::path::Path;

use anyhow::{Context as _, Result};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// A client with the credentials of a kubeconfig, bound to the current async runtime.
///
/// # Errors
/// If the kubeconfig cannot be read.
pub async fn client_of(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("read a kubeconfig")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("parse a kubeconfig")?;
    // A proxy from the environment must not be used for loopback.
    config.proxy_url = None;
    Client::try_from(config).context("make an API client")
}
