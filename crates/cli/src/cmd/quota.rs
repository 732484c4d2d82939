//! `quota`: shows ElasticQuotas as the webhook knows them, and explains if a pod fits into its quota.

mod explain;
mod tree;

use std::io::Write;

use clap::Subcommand;

use super::Session;
use crate::error::Error;

/// ElasticQuotas as the webhook knows them.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct QuotaArgs {
    /// Question about quotas.
    #[command(subcommand)]
    question: QuotaQuestion,
}

/// Question about quotas.
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
