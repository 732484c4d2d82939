//! [`RoomError`]: why a quota has no room for a Pod.

use std::collections::BTreeMap;

use headroom_domain::{
    amounts::Amounts,
    field::{Error, Errors, Path},
    names,
    quantity::Quantity,
};

use crate::quota::{Quota, annotation};

/// A quota has no room for a Pod. Prints as Koordinator says it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoomError {
    /// An annotation of the quota cannot be read.
    #[error("{text}")]
    Annotation {
        /// What the decoder says of it.
        text: String,
        /// The quota, and which of its annotations.
        place: String,
    },
    /// The Pod asks for more than there is left.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        /// Namespace and name.
        quota: String,
        /// What the Pod asks for, of the resources that are too much.
        requested: Amounts,
        /// What others have of these.
        used: Amounts,
        /// What there may be of these.
        limited: Amounts,
    },
}

/// The amounts that an annotation of a quota says; none if it is empty.
pub(super) fn written(quota: &Quota, key: &str, text: &str) -> Result<Amounts, RoomError> {
    let amounts = annotation::amounts(text).map_err(|text| RoomError::Annotation {
        text,
        place: format!("{} of {}", key, full_name(quota)),
    });
    Ok(amounts?.unwrap_or_default())
}

/// Namespace and name.
pub(super) fn full_name(quota: &Quota) -> String {
    format!("{}/{}", quota.namespace, quota.name)
}

impl RoomError {
    /// The same for people, who are told which annotation it is.
    pub fn sentence(&self) -> String {
        match self {
            Self::Annotation { text, place } => format!("annotation {place} cannot be read: {text}"),
            Self::Exceeded { .. } => self.to_string(),
        }
    }

    /// The same for programs: each resource that is too much.
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
