//! `agent`: prints status, signals, pods or histograms of the agent on this node, read from its socket.

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

/// Status, signals, pods and histograms of the agent on this node; read from its socket, without a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Run it on the node as root; the agent must run with --debug-socket. Needs no kubeconfig and no webhook.

Examples:
  # Mode, derivation of the ratios, kernel programs, streams
  kubectl headroom agent status

  # Every signal: value, source, and the effect of its absence
  kubectl headroom agent signals

  # Scheduling latency, and CPU use of 134 ms blocks
  kubectl headroom agent histogram

  kubectl headroom agent watch -o json | jq '.resources[0].published_cents'")]
pub(crate) struct AgentArgs {
    /// Socket of the agent: its --debug-socket.
    #[arg(
        long,
        global = true,
        env = "HEADROOM_SOCKET",
        value_name = "PATH",
        default_value = names::AGENT_SOCKET
    )]
    socket: PathBuf,
    /// Question to the agent.
    #[command(subcommand)]
    question: AgentQuestion,
}

/// Question to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
enum AgentQuestion {
    /// Mode, derivation of each ratio, kernel programs, streams to hint servers.
    Status,
    /// Every signal: value, health, source, and the effect of its absence.
    Signals,
    /// Pods that the agent knows: use in the last frame, request, trust.
    Pods,
    /// Histograms since the agent's start: waits for a CPU, use of 8.39 ms windows and of 134 ms blocks.
    Histogram,
    /// Status, updated at most once a second. Output that is no terminal gets one line for each change.
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

/// Follows the agent until Ctrl-C, or until it stops.
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
