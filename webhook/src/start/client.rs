//! Opens the webhook's client of the API server.

use std::{error::Error, path::Path};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// A client by a kubeconfig, else by what is found around this process; nothing is asked of the API server yet.
///
/// It asks once: callers try again, with what they know by then. By itself the library repeats for minutes what a busy
/// server refuses, and says nothing.
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
