//! `check`: lists everything that is wrong for everybody, each with its mend; the exit code is for scripts.

use std::io::Write;

use super::Session;
use crate::{
    args::Format,
    check::{BEFORE, CheckReport, INSTALLED},
    connect,
    error::Error,
};

/// What is wrong for everybody, with its mend: registration, floor, certificate, agents, versions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each finding is a row of docs/reference/checks.md; top, node and explain begin with the first two.

Exit codes: 0 nothing wrong, 1 an error or a warning, 2 something could not be found out, or wrong usage.

Examples:
  # Before anything is installed
  kubectl headroom check --pre

  kubectl headroom check
  kubectl headroom check -o json | jq -r .findings[].code")]
pub(crate) struct InstallationCheckArgs {
    /// Checks what can be checked before anything is installed: Kubernetes' version, policies, the user's rights, the nodes'
    /// kernels, Koordinator beside.
    #[arg(long, env = "HEADROOM_PRE")]
    pre: bool,
}

impl InstallationCheckArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let Session {
            connect,
            format,
            screen,
            ..
        } = session;
        let undecided = |error| Error::Undecided(Box::new(error));
        let report = if self.pre {
            let evidence = connect::evidence_before(&connect).await.map_err(undecided)?;
            CheckReport::new(BEFORE, &evidence)
        } else {
            let evidence = connect::evidence(&connect).await.map_err(undecided)?;
            CheckReport::new(INSTALLED, &evidence)
        };
        let printed = screen.print(&match format {
            Format::Table => report.text(),
            Format::Json => format!("{:#}\n", report.json()),
        });
        // Whoever reads no further still learns by the exit code that something is wrong.
        let (count, rows) = (report.troubles(), report.rows);
        if count > 0 {
            return Err(Error::TroubleFound { count, rows });
        }
        if !report.open.is_empty() {
            let count = report.open.len();
            return Err(undecided(Error::Unanswered { count, rows }));
        }
        printed
    }
}
