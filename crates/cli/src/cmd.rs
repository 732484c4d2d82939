//! Commands of `kubectl headroom`. The file of a command has its flags, action and output.
//!
//! A new command is a file here, a variant of [`Command`] and a line in [`Command::run`].

mod advise;
mod agent;
mod check;
mod command_line;
mod completions;
mod config;
mod explain;
mod hints;
mod node_listing;
mod off;
mod pod;
mod quota;
mod reasons;
mod top;
mod uninstall;
mod version;

use std::io::Write;

use clap::Subcommand;

pub use self::command_line::Args;
use crate::{
    args::{ConnectArgs, Format, OutputFormat},
    error::Error,
    screen::Screen,
};

/// Command and its flags.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Top(top::TopArgs),
    #[command(alias = "node")]
    Explain(explain::ExplainArgs),
    Hints(hints::HintsArgs),
    Check(check::InstallationCheckArgs),
    Off(off::OffArgs),
    Uninstall(uninstall::UninstallArgs),
    Advise(Box<advise::AdviseArgs>),
    Agent(agent::AgentArgs),
    Config(config::ConfigArgs),
    Pod(pod::PodArgs),
    Quota(quota::QuotaArgs),
    Reasons(reasons::ReasonsArgs),
    Completions(completions::CompletionsArgs),
    Version(version::VersionArgs),
}

/// Input that each command gets in addition to its own flags.
pub(crate) struct Session<'s, W> {
    pub(crate) connect: ConnectArgs,
    pub(crate) format: Format,
    /// Output format; `format` is derived from it.
    pub(crate) output: OutputFormat,
    pub(crate) screen: &'s mut Screen<W>,
    /// Builds the whole command line.
    pub(crate) cli: fn() -> clap::Command,
}

impl Command {
    /// True if the output lists nodes, so that `-o name` applies.
    pub(crate) const fn has_names(&self) -> bool {
        matches!(self, Self::Top(_) | Self::Explain(_) | Self::Hints(_))
    }

    pub(crate) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        match self {
            Self::Top(args) => args.run(session).await,
            Self::Explain(args) => args.run(session).await,
            Self::Hints(args) => args.run(session).await,
            Self::Check(args) => args.run(session).await,
            Self::Off(args) => args.run(session).await,
            Self::Uninstall(args) => args.run(session).await,
            Self::Advise(args) => args.run(session).await,
            Self::Agent(args) => args.run(session).await,
            Self::Config(args) => args.run(session).await,
            Self::Pod(args) => args.run(session).await,
            Self::Quota(args) => args.run(session).await,
            Self::Reasons(args) => args.run(session),
            Self::Completions(args) => args.run(session),
            Self::Version(args) => args.run(session).await,
        }
    }
}

#[cfg(test)]
mod tests;
