//! [`KeepError`]: reasons why the newest Secret with certificates is not in use.

use std::time::Duration;

use headroom_kit::tls::TlsError;

use super::{api_object::ReadError, material::SecretError};

/// Timeout of a write.
pub(super) const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// Why the newest Secret is not in use.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    #[error("cannot read Secret {name}")]
    Read {
        name: String,
        #[source]
        source: ReadError,
    },
    #[error("Secret {name} does not exist yet")]
    Absent { name: String },
    #[error("Secret {name} is not complete; {fix}")]
    Incomplete {
        name: String,
        fix: &'static str,
        #[source]
        source: SecretError,
    },
    #[error("clients would refuse the certificate in Secret {name}; {fix}")]
    Unusable {
        name: String,
        fix: &'static str,
        #[source]
        source: Box<TlsError>,
    },
    #[error("cannot issue a certificate")]
    Issue(#[source] Box<TlsError>),
    #[error("cannot write Secret {name}")]
    Write {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("the API server did not store Secret {name} within {WRITE_LIMIT:?}")]
    Slow { name: String },
}

/// Consequence for a Secret of another writer.
pub(super) const FIX_FOREIGN: &str =
    "the certificate before it stays in use until the Secret's writer has corrected it";
/// Consequence for a Secret of ours.
pub(super) const FIX_OURS: &str =
    "the certificate before it stays in use until the leader has written a new one";
