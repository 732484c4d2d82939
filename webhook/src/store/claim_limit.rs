//! How many admitted Pods may be on their way to be stored, and for how long each counts.

use std::time::Duration;

/// How long a Pod counts of which the API server does not tell: somebody behind us has refused it, or it is gone again. The API
/// server gives a request a minute in all, and a webhook half of that at most.
pub const LASTS: Duration = Duration::from_secs(30);

/// The most claims at a time. Each review of a Pod reads those of its quota.
pub const MOST: usize = 8_192;

/// The most claims at a time on pods of one namespace, so that no namespace takes the room of the others. Clients create some
/// hundred pods a second, and a watch tells of each within a second.
pub const MOST_OF_NAMESPACE: usize = 1_024;

/// A Pod that has room cannot count, because too many others were admitted and are not stored: who may create pods that something
/// behind us refuses can make any number of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimLimit {
    /// As many of its namespace.
    #[error(
        "namespace {namespace} has {MOST_OF_NAMESPACE} pods that were admitted and are not stored yet; each counts for {} seconds at most",
        LASTS.as_secs()
    )]
    Namespace {
        /// Its name.
        namespace: String,
    },
    /// As many of all namespaces.
    #[error(
        "{MOST} pods were admitted and are not stored yet; each counts for {} seconds at most",
        LASTS.as_secs()
    )]
    All,
}
