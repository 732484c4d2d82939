//! Opens the webhook's client of the API server.

use std::{error::Error, path::Path};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Client by a kubeconfig, else by the environment of this process; it sends no request yet.
///
/// It tries once: callers retry with their current state. The library's own retries of refused requests would last
/// for minutes without a log line.
///
/// # Errors
/// If neither tells how to reach the API server.
pub(super) async fn open(kubeconfig: Option<&Path>) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let mut config = match kubeconfig {
        None => Config::infer().await?,
        Some(file) => {
            let read = Kubeconfig::read_from(file)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?
        }
    };
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}
