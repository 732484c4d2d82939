//! Our own programs against a control plane: built, given identities, started, installed.

pub mod accounts;
pub mod agent;
pub mod hint_server;
pub mod policies;
pub mod webhook;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use http_body_util::{BodyExt as _, Empty};
use hyper::{StatusCode, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{process::Process, workspace};

/// How long a program may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often it is asked.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Our programs, built with the profile that this program was built with.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `headroom-agent`.
    pub agent: PathBuf,
    /// `headroom-webhook`.
    pub webhook: PathBuf,
    /// `kubectl-headroom`.
    pub cli: PathBuf,
    /// This very program, which is also the loads of pods.
    pub xtask: PathBuf,
}

impl Programs {
    /// Builds them; cargo does nothing where nothing changed.
    ///
    /// # Errors
    /// If a build fails; cargo has said why.
    pub fn build() -> Result<Self> {
        let mut command = workspace::cargo();
        // The same selection of packages as for tests: another one has other features, and all would be built again.
        command.args(["build", "--quiet", "--workspace", "--bins"]);
        let is_release = !cfg!(debug_assertions);
        if is_release {
            command.arg("--release");
        }
        let status = command.status().context("run cargo")?;
        if !status.success() {
            bail!("our programs could not be built ({status})");
        }
        let folder = workspace::target().join(if is_release { "release" } else { "debug" });
        Ok(Self {
            agent: folder.join("headroom-agent"),
            webhook: folder.join("headroom-webhook"),
            cli: folder.join("kubectl-headroom"),
            xtask: folder.join("xtask"),
        })
    }
}

/// A loopback address that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?)
}

/// Gets a path of a program's admin port.
///
/// # Errors
/// If nobody answers within a second.
pub async fn get(admin: SocketAddr, path: &str) -> Result<(StatusCode, Bytes)> {
    let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let asked = async {
        let response = client.get(format!("http://{admin}{path}").parse()?).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    };
    timeout(Duration::from_secs(1), asked)
        .await
        .context("no answer within a second")?
}

/// Waits until the program says that it is ready.
async fn ready(process: &mut Process, admin: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        process.check()?;
        let last = match get(admin, "/readyz?verbose").await {
            Ok((StatusCode::OK, _)) => return Ok(()),
            Ok((_, body)) => String::from_utf8_lossy(&body).into_owned(),
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() >= deadline {
            let log = crate::process::tail(process.log(), 20);
            bail!(
                "{} was not ready in {READY_WITHIN:?}: {last}; {log}",
                process.name()
            );
        }
        sleep(ASK_EVERY).await;
    }
}
