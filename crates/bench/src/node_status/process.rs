//! Runs the server under load as a process of its own, so that its CPU time is separate from that of its clients.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum as _};
use headroom_kit::log::{self, Format};
use headroom_webhook::start::catalogue;
use rustls::ClientConfig;
use tempfile::TempDir;
use tokio::{
    select,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{review::Kind, router};
use crate::{
    node_status::server::{Server, client_of},
    vitals::Vitals,
};

/// The server, which `bench node-status` starts this program again for.
pub const SERVE: &str = "serve-node-status";

/// How often recorded observations are folded into buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answers reviews of one kind until standard input ends, with the logs and the metrics of a webhook in a cluster.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Kind of the reviews.
    #[arg(long, value_enum)]
    kind: Kind,
    /// Where its certificates are put.
    #[arg(long)]
    directory: PathBuf,
}

/// Such a process; killed on drop.
pub(super) struct Process {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// How clients verify it.
    pub(super) client: Arc<ClientConfig>,
    child: Child,
    _directory: TempDir,
}

impl Serve {
    /// Serves.
    ///
    /// # Errors
    /// If it cannot, or nobody reads where.
    pub fn run(&self) -> Result<()> {
        tokio::runtime::Runtime::new()?.block_on(self.serve())
    }

    async fn serve(&self) -> Result<()> {
        log::init(Format::Json, &"info".parse()?)?;
        let exporter = catalogue()?.install()?;
        let server = Server::start(router(self.kind)?, &self.directory).await?;
        writeln!(io::stdout(), "{}", server.address).context("tell the address")?;
        let mut end = spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new()));
        let mut ticks = interval(UPKEEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            select! {
                _ = &mut end => break,
                _ = ticks.tick() => exporter.upkeep(),
            }
        }
        server.stop().await
    }
}

impl Process {
    /// Starts one.
    pub(super) fn start(kind: Kind) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let kind = kind.to_possible_value().context("a kind has a name")?;
        let mut child = Command::new(env::current_exe()?)
            .args([SERVE, "--kind", kind.get_name(), "--directory"])
            .arg(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start the server")?;
        let told = child.stdout.take().context("its standard output")?;
        let mut line = String::new();
        BufReader::new(told).read_line(&mut line)?;
        let address = line.trim().parse();
        Ok(Self {
            address: address.with_context(|| format!("the server told {line:?}"))?,
            client: client_of(directory.path())?,
            child,
            _directory: directory,
        })
    }

    /// CPU time that it has used.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        Ok(Vitals::read(self.child.id())?.cpu)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _is_killed = self.child.kill().is_ok();
        let _is_over = self.child.wait().is_ok();
    }
}
