//! `quota tree`: prints each quota below its parent, with its limits or its use.

use std::io::Write;

use super::super::Session;
use crate::{
    args::Format,
    connect,
    error::Error,
    output::{
        Layout,
        quota::{
            json::tree_json,
            tree::{TreePage, TreeTable},
        },
    },
    quota::{QuotaError, QuotaRef, answers::SeenQuotas, drawing::draw},
};

/// All quotas, each below its parent; quotas without a parent in the tree are at the end.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Each replica watches quotas and pods. It also counts the pods that it admitted and that its watch has not delivered yet
(CLAIMED). All replicas are asked, and their pending pods are added up.

Examples:
  kubectl headroom quota tree
  kubectl headroom quota tree --usage research
  kubectl headroom quota tree --usage -o json | jq '.quotas[] | select(.claims > 0)'")]
pub(super) struct TreeArgs {
    /// Quota to begin with [default: all].
    #[arg(value_name = "NAME | NAMESPACE/NAME")]
    root: Option<QuotaRef>,
    /// Show use, pending pods and the rest of the quota, instead of min and max.
    #[arg(long, env = "HEADROOM_USAGE")]
    usage: bool,
}

impl TreeArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let answers = connect::quotas(&session.connect).await?;
        let follows = |seen: &SeenQuotas| seen.sight.quotas_known || seen.sight.quotas_age_ms.is_some();
        if !answers.successes().any(follows) {
            return Err(QuotaError::NotFollowed.into());
        }
        let quotas = answers.together();
        let drawn = draw(&quotas, self.root.as_ref());
        if let Some(quota) = self.root.filter(|_| drawn.is_empty()) {
            let nearest = String::new();
            return Err(QuotaError::Unknown { quota, nearest }.into());
        }
        let table = if self.usage {
            TreeTable::Usage
        } else {
            TreeTable::Amounts
        };
        session.screen.print(&match session.format {
            Format::Table => TreePage {
                answers: &answers,
                drawn: &drawn,
                table,
                layout: Layout {
                    width: session.screen.width(),
                    ..Layout::default()
                },
            }
            .to_string(),
            Format::Json => format!("{:#}\n", tree_json(&answers, &drawn)),
        })
    }
}
