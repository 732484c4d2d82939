//! Headroom's programs: builds them, and queries their admin ports.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
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
/// Ports that are given to programs: below those that Linux gives to outgoing connections, which would take one between the
/// choice and the start of the program.
const PORTS: Range<u16> = 20_000..32_000;
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

/// An address on loopback that is free, and that this process gives out once.
pub(crate) fn free_address() -> Result<SocketAddr> {
    // Processes that run at the same time begin at different places.
    static GIVEN: LazyLock<AtomicU32> =
        LazyLock::new(|| AtomicU32::new(std::process::id().wrapping_mul(257)));
    let count = PORTS.end - PORTS.start;
    for _ in 0..count {
        let place = GIVEN.fetch_add(1, Ordering::Relaxed) % u32::from(count);
        let port = PORTS.start + u16::try_from(place)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port from {} to {} is free", PORTS.start, PORTS.end)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_address_is_free_and_given_once() {
        let taken = TcpListener::bind(free_address().unwrap()).unwrap();
        let given: BTreeSet<SocketAddr> = (0..100).map(|_| free_address().unwrap()).collect();
        assert_eq!(given.len(), 100);
        assert!(!given.contains(&taken.local_addr().unwrap()));
        assert!(given.iter().all(|address| PORTS.contains(&address.port())));
    }
}
