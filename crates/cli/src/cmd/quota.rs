//! `quota`: shows ElasticQuotas as the webhook knows them, and why a pod has room or has none.

mod explain;
mod tree;

use std::io::Write;

use clap::Subcommand;

use super::Session;
use crate::error::Error;

/// The ElasticQuotas as the webhook knows them.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct QuotaArgs {
    /// What to ask.
    #[command(subcommand)]
    question: QuotaQuestion,
}

/// What to ask about quotas.
#[derive(Debug, Clone, Subcommand)]
enum QuotaQuestion {
    Tree(tree::TreeArgs),
    Explain(explain::ExplainQuotaArgs),
}

impl QuotaArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        match self.question {
            QuotaQuestion::Tree(args) => args.run(session).await,
            QuotaQuestion::Explain(args) => args.run(session).await,
        }
    }
}
