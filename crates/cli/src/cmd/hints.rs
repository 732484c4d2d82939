//! `hints`: prints what agents reported last, for people in short, for machines as it came.

use std::io::Write;

use super::{
    Session,
    node_listing::{self, NodeRendering},
};
use crate::{args::ListArgs, error::Error, output};

/// What each agent reported last: its ratio, where that is going, and why. With -o json or yaml the report as it came.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
RATIO is what the agent publishes, TARGET where that is going. HISTORY is the share of the last day that counts. WHY is the
first reason of the report. Nodes without an agent are not shown; kubectl headroom top has them.

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
