//! The quota that a Pod is compared with, found by name.

use std::sync::Arc;

use headroom_domain::names;

use crate::quota::{Quota, QuotaTree};

/// Names of quotas without limits.
const UNLIMITED: [&str; 4] = ["", names::DEFAULT_QUOTA, names::SYSTEM_QUOTA, names::ROOT_QUOTA];

/// The name does not identify one quota. Displayed in Koordinator's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluatedQuotaError {
    /// No quota has this name.
    #[error("elastic quota {0} not found")]
    Missing(String),
    /// Quotas in several namespaces have this name.
    #[error("more than one elastic quota {0} found")]
    Ambiguous(String),
}

/// Returns true if pods of a quota with this name are compared with it.
pub fn is_limited(name: &str) -> bool {
    !UNLIMITED.contains(&name)
}

/// Returns the quota with this name.
///
/// # Errors
/// There is no such quota, or more than one.
pub fn evaluated(name: &str, tree: &dyn QuotaTree) -> Result<Arc<Quota>, EvaluatedQuotaError> {
    let quota = tree
        .by_name(name)
        .ok_or_else(|| EvaluatedQuotaError::Missing(name.to_owned()))?;
    if tree.count_named(name) > 1 {
        return Err(EvaluatedQuotaError::Ambiguous(name.to_owned()));
    }
    Ok(quota)
}
