//! [`WatchError`]: causes for which a list or a watch ends, and whether the watch can continue from its version.

use std::{io, time::Duration};

use kube::core::Status;

use super::{event::LineError, list_splitter::SplitError};

/// The cause that an API server names which has not come as far as the version asked for: one that was restored from a
/// backup never will.
const VERSION_IS_AHEAD: &str = "ResourceVersionTooLarge";

/// Cause of an interruption of the watch.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    #[error("the API server refused the request, or is unreachable")]
    Api(#[from] kube::Error),
    #[error("the API server did not answer within {0:?}")]
    Slow(Duration),
    #[error("the watch is open and delivers nothing")]
    Silent,
    #[error("the watch ended too early")]
    Cut,
    #[error("the API server sent no resource version")]
    Unversioned,
    #[error("the connection broke")]
    Broken(#[from] io::Error),
    #[error("the watch sent something else than events")]
    NotAnEvent(#[source] LineError),
    #[error("the answer is not a list")]
    NotAList(#[from] SplitError),
}

impl From<LineError> for WatchError {
    fn from(error: LineError) -> Self {
        match error {
            LineError::Ended(error) => Self::Api(error),
            other @ (LineError::UnknownType(_) | LineError::Unreadable(_)) => Self::NotAnEvent(other),
        }
    }
}

impl WatchError {
    /// True if the API server answers "not found".
    pub(super) fn is_not_found(&self) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => status.code == 404,
            Self::Api(_)
            | Self::Slow(_)
            | Self::Silent
            | Self::Cut
            | Self::Unversioned
            | Self::Broken(_)
            | Self::NotAnEvent(_)
            | Self::NotAList(_) => false,
        }
    }

    /// True if the watch cannot continue from its version: all objects are listed again then.
    pub(super) fn is_of_version(&self) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => is_out_of_reach(status),
            Self::Unversioned | Self::NotAnEvent(_) => true,
            Self::Api(_) | Self::Slow(_) | Self::Silent | Self::Cut | Self::Broken(_) | Self::NotAList(_) => {
                false
            }
        }
    }
}

/// True if the API server no longer has the events after the version, or has not reached the version.
fn is_out_of_reach(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 410
        || causes
            .map(|cause| cause.reason.as_str())
            .any(|reason| reason == VERSION_IS_AHEAD)
}
