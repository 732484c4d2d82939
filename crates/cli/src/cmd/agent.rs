//! `agent`: what the agent of this very node says, asked through its socket.

use std::io::Write;

use headroom_proto::status::Status;
use serde_json::{Value, json};
use tokio::signal;

use crate::{
    agent::{self, Agent},
    args::{AgentArgs, AgentQuestion, Format},
    error::Error,
    output::agent as output,
    screen::Screen,
};

pub(crate) async fn agent<W: Write>(
    args: AgentArgs,
    format: Format,
    screen: &mut Screen<W>,
) -> Result<(), Error> {
    let AgentArgs { socket, question } = args;
    let mut agent = agent::open(&socket).await?;
    let text = match (question, format) {
        (AgentQuestion::Status, Format::Table) => output::status(&agent.status().await?),
        (AgentQuestion::Status, Format::Json) => pretty(&json!(agent.status().await?)),
        (AgentQuestion::Signals, Format::Table) => output::signals(&agent.status().await?.signals),
        (AgentQuestion::Signals, Format::Json) => {
            let signals = agent.status().await?.signals;
            pretty(&json!(signals))
        }
        (AgentQuestion::Pods, Format::Table) => output::pods(&agent.pods().await?),
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
            screen.redraw(&(output::status(status) + "\n" + &output::signals(&status.signals)))
        }
        Format::Table => screen.print(&output::line(status)),
        Format::Json => screen.print(&format!("{}\n", json!(status))),
    }
}

fn pretty(answer: &Value) -> String {
    format!("{answer:#}\n")
}
