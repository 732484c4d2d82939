//! `completions`: prints a shell's completion script for all commands.

use std::io::Write;

use clap_complete::Shell;

use super::Session;
use crate::error::Error;

/// Print a completion script.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct CompletionsArgs {
    /// The shell.
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
