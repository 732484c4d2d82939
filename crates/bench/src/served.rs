//! Runs a server under load as a process of its own, so that its CPU time and memory are separate from those of its clients.

pub(crate) mod client;
pub(crate) mod load;
pub(crate) mod server;

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
use clap::Args;
use headroom_kit::log::{self, Format};
use headroom_webhook::{admission::router::Router, start::catalogue};
use rustls::ClientConfig;
use tempfile::TempDir;
use tokio::{
    select,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use self::server::{Server, client_of};
use crate::vitals::Vitals;

/// The command by which a bench starts this program again as a server.
pub const SERVE: &str = "serve";

/// A server that benches load.
#[derive(Debug)]
pub struct Served {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it serves.
    pub router: fn() -> Result<Router>,
}

/// How often recorded observations are folded into buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answers reviews until standard input ends, with the logs and the metrics of a webhook in a cluster.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// What is served.
    #[arg(long)]
    name: String,
    /// Where its certificates are put.
    #[arg(long)]
    directory: PathBuf,
}

/// Such a process; killed on drop.
pub(crate) struct Process {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// How clients verify it.
    pub(crate) client: Arc<ClientConfig>,
    child: Child,
    _directory: TempDir,
}

impl Serve {
    /// Serves one of these.
    ///
    /// # Errors
    /// If it cannot, or nobody reads where.
    pub fn run(&self, all: &[&Served]) -> Result<()> {
        tokio::runtime::Runtime::new()?.block_on(self.serve(all))
    }

    async fn serve(&self, all: &[&Served]) -> Result<()> {
        log::init(Format::Json, &"info".parse()?)?;
        let exporter = catalogue()?.install()?;
        let served = all.iter().find(|served| served.name == self.name);
        let router = (served.context("there is no such server")?.router)()?;
        let server = Server::start(router, &self.directory).await?;
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
    pub(crate) fn start(served: &Served) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut child = Command::new(env::current_exe()?)
            .args([SERVE, "--name", served.name, "--directory"])
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

    /// CPU time that it has used, and memory that it has.
    pub(crate) fn vitals(&self) -> Result<Vitals> {
        Vitals::read(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _is_killed = self.child.kill().is_ok();
        let _is_over = self.child.wait().is_ok();
    }
}
