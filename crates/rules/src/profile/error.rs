//! [`ApplyError`]: why a profile is not applied to an object.

use std::{error::Error, iter};

use headroom_domain::field;

use crate::{merge::MergeError, reservation::ReservationTypeError};

/// Longest value of a label, in bytes.
pub(super) const LONGEST_VALUE: usize = 63;

/// Most bytes that the key mappings of a profile copy in one object. Kubernetes takes no more in all its annotations, and
/// whoever creates the object writes the values.
pub(super) const MOST_COPIED: usize = 256 << 10;

/// A profile cannot be applied to an object.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// The PriorityClass does not exist, or is not known.
    #[error("PriorityClass.scheduling.k8s.io {0:?} not found")]
    UnknownClass(String),
    /// A label would be too long with its suffix.
    #[error("label {0} would be longer than {LONGEST_VALUE} bytes with its suffix")]
    LongLabel(String),
    /// Key mappings would copy more than an object may hold.
    #[error("key mappings of {0} would copy more than {MOST_COPIED} bytes")]
    LargeMapping(&'static str),
    /// Something on the way to a field is no object.
    #[error("{0} is not an object")]
    NoObject(&'static str),
    /// The patch does not fit.
    #[error("spec.patch does not apply")]
    Patch(#[from] MergeError),
    /// The patch gives a field of a Reservation another type.
    #[error("spec.patch does not apply")]
    Type(#[from] ReservationTypeError),
    /// The patch writes a time or an amount into a Reservation that is none.
    #[error("spec.patch does not apply: {0}")]
    Values(field::Errors),
}

/// The error and its causes on one line.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let errors = iter::successors(Some(error), |&error| error.source());
    errors.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
