//! `top`: prints a table of all nodes, once or updated with each change.

use std::io::Write;

use super::{
    Session,
    node_listing::{self, NodeRendering},
};
use crate::{args::ListArgs, error::Error, output};

/// Measured use, ratio, allocatable and brakes of all nodes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
CPU is in milli-cores, memory in MiB. USED is the use of the whole machine, PEAK its highest expected use. Columns that do not
fit the terminal are left out; -o wide prints all.

Examples:
  kubectl headroom top
  kubectl headroom top node/worker-1 -o wide
  kubectl headroom top -l pool=batch --sort-by brake --watch
  kubectl headroom top -o json | jq '.[] | select(.brake_cpu > 0)'
  kubectl headroom top --watch -o json | jq 'select(.brake_cpu > 0)'")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    list: ListArgs,
    /// Print the table once and exit, even with --watch.
    #[arg(long, env = "HEADROOM_ONCE", hide = true)]
    once: bool,
}

impl TopArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let rendering = NodeRendering {
            table: output::top_table,
            line: output::top_line,
            json: |node| Some(output::row_json(node)),
            has_findings: true,
        };
        let list = ListArgs {
            watch: self.list.watch && !self.once,
            ..self.list
        };
        node_listing::run(list, rendering, session).await
    }
}
