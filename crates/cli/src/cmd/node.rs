//! `node NAME`: prints all data that the webhook has about one node.

use std::io::Write;

use super::Session;
use crate::{
    args::Format,
    connect,
    error::Error,
    output::{self, Page},
};

/// Everything the webhook knows of one node, and how its ratio comes about, term by term.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl headroom node worker-1
  kubectl headroom node worker-1 -o json | jq .cpu.slack_milli")]
pub(crate) struct NodeArgs {
    /// The node.
    name: String,
}

impl NodeArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let node = connect::open(&session.connect).await?.one(self.name).await?;
        session.screen.print(&match session.format {
            Format::Table => Page(&node).to_string(),
            Format::Json => format!("{:#}\n", output::node_json(&node)),
        })
    }
}
