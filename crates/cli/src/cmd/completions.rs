//! `completions`: prints a completion script for a shell.

use std::io::Write;

use clap_complete::Shell;

use super::Session;
use crate::error::Error;

/// Print a completion script for kubectl-headroom. kubectl itself completes through a link, see below.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
To complete `kubectl headroom`, kubectl runs a program named kubectl_complete-headroom. A link to kubectl-headroom is enough; it
also completes names of nodes.

Examples:
  ln -s kubectl-headroom \"$(dirname \"$(command -v kubectl-headroom)\")/kubectl_complete-headroom\"
  kubectl headroom completions bash > /etc/bash_completion.d/kubectl-headroom")]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for.
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let Session { cli, screen, .. } = session;
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli(), "kubectl-headroom", &mut script);
        screen.print(&String::from_utf8_lossy(&script))
    }
}
