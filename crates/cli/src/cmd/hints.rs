//! `hints`: prints the newest report of each agent.

use std::io::Write;

use serde_json::Value;

use super::Session;
use crate::{args::Format, connect, error::Error, output};

/// The newest report of each agent, as it came.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl headroom hints
  kubectl headroom hints worker-1 -o json")]
pub(crate) struct HintsArgs {
    /// Only this node.
    node: Option<String>,
}

impl HintsArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let mut webhook = connect::open(&session.connect).await?;
        let nodes = webhook.list(self.node.as_deref()).await?;
        session.screen.print(&match session.format {
            Format::Table => output::hints_table(&nodes),
            Format::Json => {
                let hints = nodes.iter().filter_map(|node| node.hint.as_ref());
                let reports: Value = hints.map(output::report_json).collect();
                format!("{reports:#}\n")
            }
        })
    }
}
