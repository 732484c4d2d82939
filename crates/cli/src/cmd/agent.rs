//! `agent`: prints status, signals, pods or distributions of the agent on this node, read from its socket.

use std::{io::Write, path::PathBuf};

use clap::Subcommand;
use headroom_domain::names;
use headroom_proto::status::Status;
use serde_json::{Value, json};
use tokio::signal;

use super::Session;
use crate::{
    agent_client::{self, Agent},
    args::Format,
    error::Error,
    output::{Layout, agent as output},
    screen::Screen,
    styled_text::StyledText,
};

/// What the agent of this very node sees, decides and does; asked through its socket, without a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
On the node itself, as root, of an agent that runs with --debug-socket. Takes no kubeconfig and no webhook.

Examples:
  # Mode, derivation of the ratios, kernel programs, streams
  kubectl headroom agent status

  # Every signal: its value, its source, what is lost without it
  kubectl headroom agent signals

  # How long do tasks wait for a CPU, and how full are 134 ms?
  kubectl headroom agent histogram

  kubectl headroom agent watch -o json | jq '.resources[0].published_cents'")]
pub(crate) struct AgentArgs {
    /// The agent's socket: its --debug-socket.
    #[arg(
        long,
        global = true,
        env = "HEADROOM_SOCKET",
        value_name = "PATH",
        default_value = names::AGENT_SOCKET
    )]
    socket: PathBuf,
    /// What to ask.
    #[command(subcommand)]
    question: AgentQuestion,
}

/// What to ask an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
enum AgentQuestion {
    /// Mode and what it means, the derivation of each ratio, kernel programs, streams to hint servers.
    Status,
    /// Every signal: value, health, source, and what is lost where one is missing.
    Signals,
    /// The pods it knows of: use in the last frame, request, trust.
    Pods,
    /// Distributions since the agent was started: waits for a CPU, use of 8.39 ms windows and of 134 ms blocks.
    Histogram,
    /// The status kept current, at most once a second; off a terminal, each change is one line.
    Watch,
}

impl AgentArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let Session { format, screen, .. } = session;
        let mut agent = agent_client::open(&self.socket).await?;
        let layout = layout(screen);
        let text = match (self.question, format) {
            (AgentQuestion::Status, Format::Table) => output::status(&agent.status().await?, layout),
            (AgentQuestion::Status, Format::Json) => pretty(&json!(agent.status().await?)),
            (AgentQuestion::Signals, Format::Table) => {
                output::signals(&agent.status().await?.signals, layout)
            }
            (AgentQuestion::Signals, Format::Json) => {
                let signals = agent.status().await?.signals;
                pretty(&json!(signals))
            }
            (AgentQuestion::Pods, Format::Table) => output::pods(&agent.pods().await?, layout),
            (AgentQuestion::Pods, Format::Json) => {
                pretty(&agent.pods().await?.iter().map(output::pod_json).collect())
            }
            (AgentQuestion::Histogram, Format::Table) => output::histograms(&agent.histograms().await?),
            (AgentQuestion::Histogram, Format::Json) => {
                let histograms = agent.histograms().await?;
                pretty(&histograms.iter().map(output::histogram_json).collect())
            }
            (AgentQuestion::Watch, _) => return watch(agent, format, screen).await,
        };
        screen.print(&text)
    }
}

/// Follows the agent until Ctrl-C, or until it ends.
async fn watch<W: Write>(mut agent: Agent, format: Format, screen: &mut Screen<W>) -> Result<(), Error> {
    let mut watch = agent.watch().await?;
    loop {
        let status = tokio::select! {
            biased;
            interrupted = signal::ctrl_c() => return interrupted.map_err(Error::Write),
            status = watch.next() => status?,
        };
        show(&status, format, screen)?;
    }
}

fn show<W: Write>(status: &Status, format: Format, screen: &mut Screen<W>) -> Result<(), Error> {
    match format {
        Format::Table if screen.is_terminal() => {
            let layout = layout(screen);
            let text = output::status(status, layout) + "\n" + &output::signals(&status.signals, layout);
            screen.redraw(&StyledText::from(text))
        }
        Format::Table => screen.print(&output::line(status)),
        Format::Json => screen.print(&format!("{}\n", json!(status))),
    }
}

fn layout<W: Write>(screen: &Screen<W>) -> Layout {
    Layout {
        width: screen.width(),
        ..Layout::default()
    }
}

fn pretty(answer: &Value) -> String {
    format!("{answer:#}\n")
}
