//! `check`: lists the problems of the installation, each with its fix. The exit code is for scripts.

use std::io::Write;

use super::Session;
use crate::{
    args::Format,
    check::{BEFORE, CheckReport, INSTALLED},
    connect,
    error::Error,
};

/// Problems of the whole installation, each with its fix: registration, floor, certificate, agents, versions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
docs/reference/checks.md describes each finding. top and explain print the two most important ones above their output.

Exit codes: 0 no problem, 1 an error or a warning, 2 a check could not be decided, or wrong usage.

Examples:
  # Before anything is installed
  kubectl headroom check --pre

  kubectl headroom check
  kubectl headroom check -o json | jq -r .findings[].code")]
pub(crate) struct InstallationCheckArgs {
    /// Check the cluster before Headroom is installed: Kubernetes version, policies, your permissions, kernels of the
    /// nodes, Koordinator.
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
        // An error while printing must not hide that problems were found.
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
