//! [`QuotaCheckError`]: the reason why a Pod does not fit into a quota.

use std::collections::BTreeMap;

use headroom_domain::{
    amounts::Amounts,
    field::{Error, Errors, Path},
    names,
    quantity::Quantity,
};

use crate::quota::{Quota, annotation};

/// Reason why a Pod does not fit into a quota. Displayed in Koordinator's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuotaCheckError {
    /// An annotation of the quota cannot be read.
    #[error("{text}")]
    Annotation {
        /// Error of the JSON or quantity decoder.
        text: String,
        /// Name of the annotation, and the quota.
        place: String,
    },
    /// The Pod requests more than the quota has left.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        /// Namespace and name of the quota.
        quota: String,
        /// Requests of the Pod, of the exceeded resources.
        requested: Amounts,
        /// Usage of these resources by other pods.
        used: Amounts,
        /// Limits of these resources in the quota.
        limited: Amounts,
    },
}

/// Amounts in an annotation of a quota; empty for an empty text.
pub(super) fn written(quota: &Quota, key: &str, text: &str) -> Result<Amounts, QuotaCheckError> {
    let amounts = annotation::amounts(text).map_err(|text| QuotaCheckError::Annotation {
        text,
        place: format!("{} of {}", key, full_name(quota)),
    });
    Ok(amounts?.unwrap_or_default())
}

/// Namespace and name of the quota, joined by a slash.
pub(super) fn full_name(quota: &Quota) -> String {
    format!("{}/{}", quota.namespace, quota.name)
}

impl QuotaCheckError {
    /// Message for users, which names the annotation.
    pub fn sentence(&self) -> String {
        match self {
            Self::Annotation { text, place } => format!("annotation {place} cannot be read: {text}"),
            Self::Exceeded { .. } => self.to_string(),
        }
    }

    /// Field errors for programs: one per exceeded resource.
    pub fn errors(&self) -> Errors {
        let label = Path::new("metadata").child("labels").key(names::QUOTA_NAME);
        match self {
            Self::Annotation { .. } => [Error::forbidden(&label, &self.sentence())].into_iter().collect(),
            Self::Exceeded {
                quota,
                requested,
                used,
                limited,
            } => {
                let used: BTreeMap<&str, &Quantity> = used.iter().collect();
                let each = requested.iter().map(|(name, amount)| {
                    let used = used.get(name).copied().unwrap_or(&Quantity::ZERO);
                    let limit = limited.get(name).unwrap_or(&Quantity::ZERO);
                    let detail = format!("quota {quota} has {limit} of {name}, of which {used} are used");
                    Error::invalid(
                        &Path::new("spec").child("containers"),
                        format!("{name}={amount}"),
                        &detail,
                    )
                });
                each.collect()
            }
        }
    }
}
