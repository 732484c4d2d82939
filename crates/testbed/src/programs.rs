//! Headroom's programs: builds them, and queries their admin ports.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
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
use xtask::{
    launch,
    process::{self, Process},
};

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
    /// `headroom-load`: the loads of pods.
    pub load: PathBuf,
}

impl Programs {
    /// Builds them, in the profile that this program was built in; cargo does nothing where nothing changed. Where
    /// `cargo xtask` has just built them it says so by a variable, and cargo is not asked again.
    ///
    /// # Errors
    /// If a build fails; cargo has said why.
    pub fn build() -> Result<Self> {
        let is_release = !cfg!(debug_assertions);
        launch::ensure(&Self::NAMES, is_release)?;
        Ok(Self::in_folder(&launch::folder(is_release)))
    }

    /// What they are called: the names of their files.
    pub const NAMES: [&str; 4] = launch::PROGRAMS;

    fn in_folder(folder: &Path) -> Self {
        let [agent, webhook, cli, load] = Self::NAMES.map(|name| folder.join(name));
        Self {
            agent,
            webhook,
            cli,
            load,
        }
    }
}

/// A loopback address that was free a moment ago.
pub(crate) fn free_address() -> Result<SocketAddr> {
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
pub(crate) async fn ready(process: &mut Process, admin: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        process.check()?;
        let last = match get(admin, "/readyz?verbose").await {
            Ok((StatusCode::OK, _)) => return Ok(()),
            Ok((_, body)) => String::from_utf8_lossy(&body).into_owned(),
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() >= deadline {
            let log = process::tail(process.log(), 20);
            bail!(
                "{} was not ready in {READY_WITHIN:?}: {last}; {log}",
                process.name()
            );
        }
        sleep(ASK_EVERY).await;
    }
}
