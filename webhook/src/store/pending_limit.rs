//! Limits on admitted Pods that are not stored yet: their number, and the time for which each counts.

use std::time::Duration;

/// Time for which a Pod counts that the watch does not deliver: a later admission plugin has refused it, or it has
/// been deleted already. The API server allows one minute for a request, and at most half of it for a webhook.
pub const LASTS: Duration = Duration::from_secs(30);

/// The most claims at a time. Each review of a Pod reads those of its quota.
pub const MOST: usize = 8_192;

/// Maximum number of pending admissions of pods in one namespace, so that no namespace can use up the limit of the
/// others. Clients create some hundred pods a second, and a watch delivers each within a second.
pub const MOST_OF_NAMESPACE: usize = 1_024;

/// A Pod that fits cannot be counted, because too many others were admitted and are not stored: a user who may create
/// pods that a later plugin refuses can make any number of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PendingLimit {
    /// The limit of the namespace is reached.
    #[error(
        "namespace {namespace} has {MOST_OF_NAMESPACE} pods that were admitted and are not stored \
         yet; each counts for at most {} seconds",
        LASTS.as_secs()
    )]
    Namespace { namespace: String },
    /// The limit over all namespaces is reached.
    #[error(
        "{MOST} pods were admitted and are not stored yet; each counts for at most {} seconds",
        LASTS.as_secs()
    )]
    All,
}
