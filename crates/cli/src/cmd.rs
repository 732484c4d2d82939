//! The commands of `kubectl headroom`, one file each, with the flags, the action and the output of that command alone.
//!
//! A new one is a file here, a variant of [`Command`] and a line in [`Command::run`].

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
mod version;

use std::io::Write;

use clap::Subcommand;

pub use self::command_line::Args;
use crate::{
    args::{ConnectArgs, Format, OutputFormat},
    error::Error,
    screen::Screen,
};

/// What to ask.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Top(top::TopArgs),
    #[command(alias = "node")]
    Explain(explain::ExplainArgs),
    Hints(hints::HintsArgs),
    Check(check::InstallationCheckArgs),
    Off(off::OffArgs),
    Advise(Box<advise::AdviseArgs>),
    Agent(agent::AgentArgs),
    Config(config::ConfigArgs),
    Pod(pod::PodArgs),
    Quota(quota::QuotaArgs),
    Reasons(reasons::ReasonsArgs),
    Completions(completions::CompletionsArgs),
    Version(version::VersionArgs),
}

/// What each command is given besides its own flags.
pub(crate) struct Session<'s, W> {
    /// How to reach the cluster.
    pub(crate) connect: ConnectArgs,
    /// For whom to print.
    pub(crate) format: Format,
    /// How to print, in full.
    pub(crate) output: OutputFormat,
    pub(crate) screen: &'s mut Screen<W>,
    /// The whole command line.
    pub(crate) cli: fn() -> clap::Command,
}

impl Command {
    /// True if its answer is of nodes, which have names.
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
