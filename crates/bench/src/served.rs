//! Runs a server under load as a separate process, so that its CPU time and memory are separate from those of its
//! clients.

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

use self::server::{HTTP_1, Server, client_tls};
use crate::vitals::Vitals;

/// Subcommand with which a bench starts this program as a server.
pub const SERVE: &str = "serve";

/// A server that runs as a separate process.
#[derive(Debug)]
pub struct Served {
    /// Value of `--name` on the command line.
    pub name: &'static str,
    pub router: fn() -> Result<Router>,
}

/// Interval at which recorded observations are folded into histogram buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answers reviews until standard input ends, with logs and metrics like the webhook in a cluster.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Name of the server, one of the benches' servers.
    #[arg(long)]
    name: String,
    /// Directory for the server's self-signed certificates.
    #[arg(long)]
    directory: PathBuf,
}

/// A running server process, killed on drop.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    pub(crate) client: Arc<ClientConfig>,
    child: Child,
    _directory: TempDir,
}

impl Serve {
    /// Serves one of `all`.
    ///
    /// # Errors
    /// If the server cannot be started, or its address cannot be printed.
    pub fn run(&self, all: &[&Served]) -> Result<()> {
        tokio::runtime::Runtime::new()?.block_on(self.serve(all))
    }

    async fn serve(&self, all: &[&Served]) -> Result<()> {
        log::init(Format::Json, &"info".parse()?)?;
        let exporter = catalogue()?.install()?;
        let served = all.iter().find(|served| served.name == self.name);
        let router = (served.context("there is no server with this name")?.router)()?;
        let server = Server::start(router, &self.directory).await?;
        writeln!(io::stdout(), "{}", server.address).context("cannot print the address")?;
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
    pub(crate) fn start(served: &Served) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut child = Command::new(env::current_exe()?)
            .args([SERVE, "--name", served.name, "--directory"])
            .arg(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the server")?;
        let output = child.stdout.take().context("the server has no standard output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse();
        Ok(Self {
            address: address.with_context(|| format!("the server printed {line:?}, expected an address"))?,
            client: client_tls(directory.path(), HTTP_1)?,
            child,
            _directory: directory,
        })
    }

    pub(crate) fn vitals(&self) -> Result<Vitals> {
        Vitals::read(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the process has already ended.
        let _is_killed = self.child.kill().is_ok();
        let _is_over = self.child.wait().is_ok();
    }
}
