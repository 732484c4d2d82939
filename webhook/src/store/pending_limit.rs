//! Limits on admitted Pods that are not stored yet: their number, and the time for which each counts.

use std::time::Duration;

/// Time for which an admission counts that the watch does not deliver: a later admission plugin has refused the object, or
/// it has been deleted already. A watch delivers an object within a second.
pub const LASTS: Duration = Duration::from_secs(5);

/// Time for which an admission for an API server counts while the watch lags: API servers allow one minute for a request, and at most half of it for a
/// webhook. Any client could cause it for unverified callers.
pub const LASTS_DURING_LAG: Duration = Duration::from_secs(30);

/// The most claims at a time. Each review of a Pod reads those of its quota. Namespaces share them: a namespace with less
/// than an equal share always has a place, for which the oldest claim of the namespace with the most ends.
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
    /// The limit over all namespaces is reached, and the namespace has its share.
    #[error(
        "{MOST} pods were admitted and are not stored yet, and namespace {namespace} has its share of {share} of them; \
         each counts for at most {} seconds",
        LASTS.as_secs()
    )]
    All { namespace: String, share: usize },
    /// More pods of a controller were admitted than the watch has shown.
    #[error(
        "{pending} pods of the controller of pod {pod} were admitted and are not stored yet, and {seen} were stored in the \
         last {} seconds: one more may be admitted once they are stored",
        LASTS.as_secs()
    )]
    Controller {
        pod: String,
        pending: usize,
        seen: usize,
    },
}
