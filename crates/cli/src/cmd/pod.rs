//! `pod`: explains how the webhook changed a pod.

mod explain;

use std::io::Write;

use clap::Subcommand;

use super::Session;
use crate::error::Error;

/// Changes that the webhook made to pods, and their causes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PodArgs {
    /// Question about a pod.
    #[command(subcommand)]
    question: PodQuestion,
}

/// Question about a pod.
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
