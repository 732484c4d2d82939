//! `hints`: prints the last report of each agent, as a table or, for machines, complete.

use std::io::Write;

use super::{
    Session,
    node_listing::{self, NodeRendering},
};
use crate::{args::ListArgs, error::Error, output};

/// Last report of each agent: published ratio, target and reason. -o json and -o yaml print the whole report.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
RATIO is the ratio that the agent publishes, TARGET the ratio that it moves to. HISTORY is the valid share of the last day. WHY is
the first reason in the report. Nodes without an agent are only in kubectl headroom top.

Examples:
  kubectl headroom hints
  kubectl headroom hints worker-1 -o json
  kubectl headroom hints --sort-by age --no-headers")]
pub(crate) struct HintsArgs {
    #[command(flatten)]
    list: ListArgs,
}

impl HintsArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let rendering = NodeRendering {
            table: output::hints_table,
            line: output::hint_line,
            json: |node| node.hint.as_ref().map(output::report_json),
            has_findings: false,
        };
        node_listing::run(self.list, rendering, session).await
    }
}
