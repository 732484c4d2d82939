//! Which quota a Pod is compared with, once the name of its quota is known.

use std::sync::Arc;

use headroom_domain::names;

use crate::quota::{Quota, QuotaTree};

/// Quotas that limit nothing.
const UNLIMITED: [&str; 4] = ["", names::DEFAULT_QUOTA, names::SYSTEM_QUOTA, names::ROOT_QUOTA];

/// No one quota can be compared with. Prints as Koordinator says it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluatedQuotaError {
    /// There is none of the name.
    #[error("elastic quota {0} not found")]
    Missing(String),
    /// Several namespaces have one of the name.
    #[error("more than one elastic quota {0} found")]
    Ambiguous(String),
}

/// True if pods of a quota of that name are compared with it.
pub fn is_limited(name: &str) -> bool {
    !UNLIMITED.contains(&name)
}

/// The quota of that name.
///
/// # Errors
/// There is none, or more than one.
pub fn evaluated(name: &str, tree: &dyn QuotaTree) -> Result<Arc<Quota>, EvaluatedQuotaError> {
    let quota = tree
        .by_name(name)
        .ok_or_else(|| EvaluatedQuotaError::Missing(name.to_owned()))?;
    if tree.count_named(name) > 1 {
        return Err(EvaluatedQuotaError::Ambiguous(name.to_owned()));
    }
    Ok(quota)
}
