//! ElasticQuotas as the webhook's replicas know them, and their names on the command line.

pub mod answers;
pub mod drawing;

use std::{fmt, str::FromStr};

use crate::{error::Error, pod::PodName};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaSubject {
    Quota(QuotaRef),
    /// A pod, whose quota is explained.
    Pod(PodName),
}

/// Name of a quota, with or without its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaRef {
    /// Empty if any namespace matches.
    pub namespace: String,
    pub name: String,
}

/// The text does not name a quota or a pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not NAME, NAMESPACE/NAME or pod/NAMESPACE/NAME, such as lab, team/lab or pod/shop/web-0")]
pub struct QuotaSubjectError;

/// Error of a command about quotas.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    #[error("the webhook does not know quota {quota}{nearest}")]
    Unknown {
        quota: QuotaRef,
        /// The nearest known names with their introduction; empty for none.
        nearest: String,
    },
    #[error(
        "no replica watches ElasticQuotas: the CRD is not installed, or the webhook does not serve `koordinator` with its feature gates"
    )]
    NotFollowed,
}

impl From<QuotaError> for Error {
    fn from(error: QuotaError) -> Self {
        Self::Area(Box::new(error))
    }
}

impl FromStr for QuotaRef {
    type Err = QuotaSubjectError;

    fn from_str(text: &str) -> Result<Self, QuotaSubjectError> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        let is_name = !name.is_empty() && !name.contains('/');
        if !is_name || (namespace.is_empty() && text.contains('/')) {
            return Err(QuotaSubjectError);
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl FromStr for QuotaSubject {
    type Err = QuotaSubjectError;

    fn from_str(text: &str) -> Result<Self, QuotaSubjectError> {
        match text.strip_prefix("pod/").filter(|rest| rest.contains('/')) {
            Some(pod) => pod.parse().map(Self::Pod).map_err(|_bad| QuotaSubjectError),
            None => text.parse().map(Self::Quota),
        }
    }
}

impl fmt::Display for QuotaRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{namespace}{slash}{name}")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::name("lab", Some("quota lab"))]
    #[case::namespace("team/lab", Some("quota team/lab"))]
    #[case::pod("pod/shop/web-0", Some("pod shop/web-0"))]
    #[case::namespace_that_is_called_pod("pod/lab", Some("quota pod/lab"))]
    #[case::nothing("", None)]
    #[case::no_namespace("/lab", None)]
    #[case::no_name("team/", None)]
    #[case::too_many("a/b/c", None)]
    #[case::pod_of_too_many("pod/a/b/c", None)]
    fn a_subject_is_a_quota_or_a_pod(#[case] text: &str, #[case] expected: Option<&str>) {
        let subject = text.parse::<QuotaSubject>().ok().map(|subject| match subject {
            QuotaSubject::Quota(quota) => format!("quota {quota}"),
            QuotaSubject::Pod(pod) => format!("pod {pod}"),
        });
        assert_eq!(subject.as_deref(), expected);
    }
}
