//! `pod`: explains why a pod got what it got.

mod explain;

use std::io::Write;

use clap::Subcommand;

use super::Session;
use crate::error::Error;

/// What the webhook makes of pods, and why.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PodArgs {
    /// What to ask.
    #[command(subcommand)]
    question: PodQuestion,
}

/// What to ask about a pod.
#[derive(Debug, Clone, Subcommand)]
enum PodQuestion {
    Explain(explain::ExplainPodArgs),
}

impl PodArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        match self.question {
            PodQuestion::Explain(args) => args.run(session).await,
        }
    }
}
