//! Runs `headroom-agent` as a process on this kernel, and reads the status from its admin port.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use headroom_agent::local::status::{self, Status};
use headroom_domain::{estimate::Profile, installation::Installation};
use hyper::StatusCode;
use xtask::process::Process;

use crate::programs::{free_address, get};

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// Options of an agent process.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    pub program: PathBuf,
    /// Folder for its token and log.
    pub folder: PathBuf,
    pub node: String,
    pub token: String,
    /// Hint ports of the replicas.
    pub servers: Vec<SocketAddr>,
    /// CA file of the hint ports, in PEM.
    pub ca: PathBuf,
    pub timing: Profile,
    /// Source of CPU counters: `auto`, `ebpf` or `procfs`.
    pub source: String,
    pub flags: Vec<String>,
}

/// A running agent; ended when dropped.
#[derive(Debug)]
pub struct Agent {
    pub process: Process,
    pub admin: SocketAddr,
}

impl AgentOptions {
    pub fn timing(mut self, timing: Profile) -> Self {
        self.timing = timing;
        self
    }

    /// Sets the source of CPU counters: `auto`, `ebpf` or `procfs`.
    pub fn source(mut self, source: &str) -> Self {
        source.clone_into(&mut self.source);
        self
    }

    /// Sets further flags, replacing earlier ones.
    pub fn flags<F: Into<String>>(mut self, flags: impl IntoIterator<Item = F>) -> Self {
        self.flags = flags.into_iter().map(Into::into).collect();
        self
    }
}

impl Agent {
    /// Starts the agent with `--program-stats`, without waiting.
    ///
    /// # Errors
    /// If its token cannot be written, or it cannot be started.
    pub fn spawn(options: &AgentOptions) -> Result<Self> {
        let mut command = Command::new(&options.program);
        command.arg("--program-stats");
        Self::start(command, options)
    }

    /// Starts the agent without waiting, through a command that drops privileges and then executes it.
    ///
    /// # Errors
    /// Errors of [`Agent::spawn`].
    pub fn spawn_under(confiner: &[&str], options: &AgentOptions) -> Result<Self> {
        let (program, arguments) = confiner.split_first().context("the confining command is empty")?;
        let mut command = Command::new(program);
        command.args(arguments).arg(&options.program);
        Self::start(command, options)
    }

    fn start(mut command: Command, options: &AgentOptions) -> Result<Self> {
        let AgentOptions {
            program: _,
            folder,
            node,
            token,
            servers,
            ca,
            timing,
            source,
            flags,
        } = options;
        let admin = free_address()?;
        let token_file = folder.join(format!("agent-{node}.token"));
        write_secret(&token_file, token)?;
        let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
        command
            .args([
                "--node-name",
                node,
                "--webhook-addr",
                &servers.join(","),
                "--source",
                source,
            ])
            .args(["--webhook-server-name", &Installation::default().hints_host()])
            .args(["--timing", timing.name(), "--admin-addr", &admin.to_string()])
            .arg("--ca-file")
            .arg(ca)
            .arg("--token-file")
            .arg(&token_file)
            .args(flags);
        let process = Process::spawn(
            "headroom-agent",
            &command,
            &folder.join(format!("agent-{node}.log")),
            GRACE,
        )?;
        Ok(Self { process, admin })
    }

    /// Reads the agent's status.
    ///
    /// # Errors
    /// If it does not answer, or the answer is no status.
    pub async fn status(&self) -> Result<Status> {
        let (code, body) = get(self.admin, status::PATH).await?;
        ensure!(code == StatusCode::OK, "{} answered {code}", status::PATH);
        serde_json::from_slice(&body).context("read the agent's status")
    }
}

/// Writes a file that only its owner can read.
///
/// # Errors
/// If it cannot be created or written.
pub fn write_secret(path: &Path, text: &str) -> Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("write {}", path.display()))?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("write {}", path.display()))
}
