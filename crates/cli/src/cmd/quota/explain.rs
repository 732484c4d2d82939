//! `quota explain`: prints the state of a quota, or of a pod's quota, and the result of an admission now.

use std::io::Write;

use super::super::Session;
use crate::{
    args::Format,
    connect,
    error::Error,
    output::{
        Layout,
        quota::{
            explained::{PodQuotaPage, QuotaPage},
            json::{pod_json, quota_json},
        },
    },
    quota::{QuotaError, QuotaRef, QuotaSubject},
};

/// Why a pod fits into its quota or not: limits, use and pending admissions of the quota, and the answer to a new pod
/// now.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
The webhook applies its own rules of admission. Each replica answers for itself.

Examples:
  kubectl headroom quota explain lab
  kubectl headroom quota explain team/lab -o json
  kubectl headroom quota explain pod/shop/web-0")]
pub(super) struct ExplainQuotaArgs {
    /// Quota, or pod.
    #[arg(value_name = "NAME | NAMESPACE/NAME | pod/NAMESPACE/NAME")]
    subject: QuotaSubject,
}

impl ExplainQuotaArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let layout = Layout {
            width: session.screen.width(),
            ..Layout::default()
        };
        let text = match &self.subject {
            QuotaSubject::Pod(pod) => {
                let answers = connect::explained_pod(&session.connect, pod).await?;
                match session.format {
                    Format::Table => PodQuotaPage {
                        pod,
                        answers: &answers,
                        layout,
                    }
                    .to_string(),
                    Format::Json => format!("{:#}\n", pod_json(pod, &answers)),
                }
            }
            QuotaSubject::Quota(quota) => {
                let answers = connect::explained_quota(&session.connect, quota).await?;
                if answers.successes().all(|answer| answer.quotas.is_empty()) {
                    let nearest: Vec<String> = answers
                        .successes()
                        .flat_map(|answer| &answer.nearest)
                        .map(|name| format!("{}/{}", name.namespace, name.name))
                        .collect();
                    return Err(unknown(quota, nearest).into());
                }
                match session.format {
                    Format::Table => QuotaPage {
                        answers: &answers,
                        layout,
                    }
                    .to_string(),
                    Format::Json => format!("{:#}\n", quota_json(&answers)),
                }
            }
        };
        session.screen.print(&text)
    }
}

fn unknown(quota: &QuotaRef, mut nearest: Vec<String>) -> QuotaError {
    nearest.sort();
    nearest.dedup();
    let nearest = match nearest.join(", ") {
        names if names.is_empty() => names,
        names => format!("; the nearest names are {names}"),
    };
    QuotaError::Unknown {
        quota: quota.clone(),
        nearest,
    }
}
