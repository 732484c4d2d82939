//! [`ApplyError`]: the reason why a profile is not applied to an object.

use std::{error::Error, iter};

use headroom_domain::field;

use crate::{merge::MergeError, reservation::ReservationTypeError};

/// Maximum length of a label value, in bytes.
pub(super) const LONGEST_VALUE: usize = 63;

/// Maximum number of bytes that a profile's key mappings copy in one object. Kubernetes limits all annotations of an
/// object to this size, and the creator of the object controls the values.
pub(super) const MOST_COPIED: usize = 256 << 10;

/// Reasons why a profile cannot be applied to an object.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// The PriorityClass does not exist, or is not known.
    #[error("PriorityClass.scheduling.k8s.io {0:?} not found")]
    UnknownClass(String),
    /// A label value would be too long with its suffix.
    #[error("label {0} would be longer than {LONGEST_VALUE} bytes with its suffix")]
    LongLabel(String),
    /// Key mappings would copy more than an object may hold.
    #[error("key mappings of {0} would copy more than {MOST_COPIED} bytes")]
    LargeMapping(&'static str),
    /// The value at this path is not an object.
    #[error("{0} is not an object")]
    NoObject(&'static str),
    /// The patch does not apply.
    #[error("spec.patch does not apply")]
    Patch(#[from] MergeError),
    /// The patch gives a field of a Reservation another type.
    #[error("spec.patch does not apply")]
    Type(#[from] ReservationTypeError),
    /// The patch writes an invalid time or amount into a Reservation.
    #[error("spec.patch does not apply: {0}")]
    Values(field::Errors),
}

/// Joins the messages of an error and its sources in one line.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let errors = iter::successors(Some(error), |&error| error.source());
    errors.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
