//! [`AgentNode`] starts a real agent and the hint server that it reports to, without a cluster. [`Running`] reads the
//! agent's status, metrics and log, and ends it.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use headroom_agent::local::status::Status;
use headroom_domain::estimate::Profile;
use headroom_proto::v1alpha1::Pods;
use headroom_testbed::{
    agent::{Agent, AgentOptions},
    programs::get,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{
    built::programs,
    hint_server::{HintServer, this_machine},
    pace::happens_within,
};

/// Port 0: any free port of this machine.
pub const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A node for agents of a test.
#[derive(Debug)]
pub struct AgentNode {
    /// Folder of the node's files; the server's certificate is in `tls`.
    pub folder: TempDir,
    /// Default hint server of its agents.
    pub server: HintServer,
    cli: PathBuf,
}

/// A running agent; ended on drop. Derefs to its process and its admin port.
#[derive(Debug)]
pub struct Running(Agent);

impl AgentNode {
    /// A node with this machine's capacity and without pods.
    pub async fn start() -> Self {
        Self::with_pods(this_machine()).await
    }

    /// A node whose hint server sends this pod list.
    pub async fn with_pods(pods: Pods) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let server = HintServer::start(ANY_PORT, &folder.path().join("tls"), pods).await;
        let cli = programs().await.cli;
        Self { folder, server, cli }
    }

    /// Starts another server for the node with the same certificate.
    pub async fn another_server(&self, address: SocketAddr) -> HintServer {
        HintServer::start(address, &self.folder.path().join("tls"), this_machine()).await
    }

    /// The debug socket of its agents.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// Starts an agent with this source and demo timing.
    pub async fn agent(&self, source: &str) -> Running {
        self.agent_with(|options| source.clone_into(&mut options.source))
            .await
    }

    /// Starts an agent with source `auto` and demo timing, unless `change` alters the options.
    pub async fn agent_with(&self, change: impl FnOnce(&mut AgentOptions)) -> Running {
        let options = self.options(change).await;
        Running(Agent::spawn(&options).expect("start the agent"))
    }

    /// Starts an agent like [`Self::agent_with`] under a program that executes the agent's command line, given as its
    /// last arguments. The kernel does not count runs of the programs.
    pub async fn agent_under(&self, confiner: &[&str], change: impl FnOnce(&mut AgentOptions)) -> Running {
        let options = self.options(change).await;
        Running(Agent::spawn_under(confiner, &options).expect("start the agent"))
    }

    /// `kubectl headroom agent` with this question, without a kubeconfig.
    pub fn command(&self, question: &[&str]) -> Command {
        let mut command = Command::new(&self.cli);
        command
            .env_clear()
            .args(["agent", "--socket"])
            .arg(self.socket())
            .args(question);
        command
    }

    /// The answer of the CLI.
    ///
    /// # Errors
    /// The CLI's standard error, if it fails.
    pub fn ask(&self, question: &[&str]) -> Result<String, String> {
        let output = self.command(question).output().expect("run the CLI");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        if output.status.success() {
            Ok(text(output.stdout))
        } else {
            Err(text(output.stderr))
        }
    }

    /// The answer of the CLI as JSON.
    ///
    /// # Errors
    /// Errors of [`Self::ask`].
    pub fn json(&self, question: &str) -> Result<Value, String> {
        let answer = self.ask(&[question, "-o", "json"])?;
        serde_json::from_str(&answer).map_err(|error| format!("{error}: {answer}"))
    }

    /// Asks the CLI until the answer satisfies the condition.
    pub async fn json_until(&self, question: &str, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + happens_within();
        loop {
            match self.json(question) {
                Ok(answer) if is_it(&answer) => return answer,
                answer => {
                    assert!(
                        Instant::now() < deadline,
                        "not in {:?}: {what}; {answer:?}",
                        happens_within()
                    );
                    sleep(ASK_EVERY).await;
                }
            }
        }
    }

    async fn options(&self, change: impl FnOnce(&mut AgentOptions)) -> AgentOptions {
        let mut options = AgentOptions {
            program: programs().await.agent,
            folder: self.folder.path().to_owned(),
            node: "n1".to_owned(),
            token: "first".to_owned(),
            servers: vec![self.server.address],
            ca: self.server.ca.clone(),
            timing: Profile::Demo,
            source: "auto".to_owned(),
            flags: Vec::new(),
        };
        change(&mut options);
        options
            .flags
            .push(format!("--debug-socket={}", self.socket().display()));
        options
    }
}

impl Running {
    /// Waits for a status that satisfies the condition.
    pub async fn status_until(&mut self, what: &str, is_it: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + happens_within();
        loop {
            if let Some(status) = self.status_before(deadline, what).await
                && is_it(&status)
            {
                return status;
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until the agent satisfies the condition, which may read its log and metrics, and returns its status.
    pub async fn until(&mut self, what: &str, is_it: impl AsyncFn(&Self, &Status) -> bool) -> Status {
        let deadline = Instant::now() + happens_within();
        loop {
            if let Some(status) = self.status_before(deadline, what).await
                && is_it(self, &status).await
            {
                return status;
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Its status, or `None` if it does not answer yet.
    async fn status_before(&mut self, deadline: Instant, what: &str) -> Option<Status> {
        self.process.check().expect("the agent goes on");
        let status = self.status().await;
        assert!(
            Instant::now() < deadline,
            "not in {:?}: {what}; {status:?}; {}",
            happens_within(),
            self.log()
        );
        status.ok()
    }

    /// Its log once it has ended by itself.
    pub async fn ended_log(&mut self) -> String {
        let deadline = Instant::now() + happens_within();
        while self.process.check().is_ok() {
            assert!(Instant::now() < deadline, "it runs on: {}", self.log());
            sleep(ASK_EVERY).await;
        }
        self.log()
    }

    /// Waits for a status with this mode.
    pub async fn mode_until(&mut self, mode: &str) -> Status {
        self.status_until(mode, |status| status.mode == mode).await
    }

    pub async fn metrics(&self) -> String {
        let (_, page) = get(self.admin, "/metrics").await.expect("metrics");
        String::from_utf8_lossy(&page).into_owned()
    }

    /// Value of a series in its metrics, by its exact text; 0 if there is none.
    pub async fn counted(&self, series: &str) -> u64 {
        let metrics = self.metrics().await;
        let values = metrics.lines().filter_map(|line| line.strip_prefix(series));
        let values = values.filter_map(|value| value.strip_prefix(' '));
        values.map(|value| value.parse::<u64>().expect("a count")).sum()
    }

    /// Its log, including that of earlier agents in the same folder.
    pub fn log(&self) -> String {
        fs::read_to_string(self.process.log()).expect("a log")
    }

    /// Number of log lines of any level that contain `part`.
    pub fn lines(&self, part: &str) -> usize {
        self.log().lines().filter(|line| line.contains(part)).count()
    }

    /// Number of warnings in its log that contain `part`.
    pub fn warnings(&self, part: &str) -> usize {
        let log = self.log();
        let lines = log.lines();
        lines
            .filter(|line| line.contains("WARN") && line.contains(part))
            .count()
    }

    /// Ends it with SIGTERM and returns its exit code.
    pub async fn end(self) -> Option<i32> {
        let Self(mut agent) = self;
        let ended = spawn_blocking(move || agent.process.stop()).await;
        ended.expect("join").expect("its end").code()
    }
}

impl std::ops::Deref for Running {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.0
    }
}

impl std::ops::DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Agent {
        &mut self.0
    }
}
