//! Builds Headroom's programs, and queries their admin ports.

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

/// Time limit until a program is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Ports for programs. Linux's ephemeral ports start above this range; an outgoing connection could use one of those before the
/// program starts.
const PORTS: Range<u16> = 20_000..32_000;
const POLL: Duration = Duration::from_millis(100);

/// Paths of Headroom's programs, built with the profile of the current program.
#[derive(Debug, Clone)]
pub struct Programs {
    pub agent: PathBuf,
    pub webhook: PathBuf,
    pub cli: PathBuf,
    /// `headroom-load`, the process of pods.
    pub load: PathBuf,
}

impl Programs {
    /// Builds the programs. Skips the build if `cargo xtask` has just done it, see [`launch::ensure`].
    ///
    /// # Errors
    /// If a build fails; cargo prints the reason.
    pub fn build() -> Result<Self> {
        let is_release = !cfg!(debug_assertions);
        launch::ensure(&Self::NAMES, is_release)?;
        Ok(Self::in_folder(&launch::folder(is_release)))
    }

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

/// A free address on loopback. This process returns each address only once.
pub(crate) fn free_address() -> Result<SocketAddr> {
    // Parallel processes start at different offsets.
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(std::process::id().wrapping_mul(257)));
    let count = PORTS.end - PORTS.start;
    for _ in 0..count {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(count);
        let port = PORTS.start + u16::try_from(offset)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port from {} to {} is free", PORTS.start, PORTS.end)
}

/// Sends a GET request to a program's admin port.
///
/// # Errors
/// If there is no response within 1 s.
pub async fn get(admin: SocketAddr, path: &str) -> Result<(StatusCode, Bytes)> {
    let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let request = async {
        let response = client.get(format!("http://{admin}{path}").parse()?).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    };
    timeout(Duration::from_secs(1), request)
        .await
        .context("no response within 1 s")?
}

/// Waits until `/readyz` of the program succeeds.
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
                "{} was not ready within {READY_WITHIN:?}: {last}; {log}",
                process.name()
            );
        }
        sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn free_addresses_are_unique() {
        let taken = TcpListener::bind(free_address().unwrap()).unwrap();
        let given: BTreeSet<SocketAddr> = (0..100).map(|_| free_address().unwrap()).collect();
        assert_eq!(given.len(), 100);
        assert!(!given.contains(&taken.local_addr().unwrap()));
        assert!(given.iter().all(|address| PORTS.contains(&address.port())));
    }
}
