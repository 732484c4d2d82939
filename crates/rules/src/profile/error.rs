//! [`ApplyError`]: the reason why a profile is not applied to an object.

use std::{error::Error, iter};

use headroom_domain::field;

use crate::{merge::MergeError, pod_object::FaultKind, reservation::ReservationTypeError};

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
    /// A label value would be invalid with its suffix.
    #[error("label {key} would be {value:?} with its suffix: {faults}")]
    InvalidLabel {
        /// Key of the label.
        key: String,
        /// Value with the suffix.
        value: String,
        /// Rules that the value breaks.
        faults: String,
    },
    /// The patch changes a field that identifies the pod or that only its RuntimeClass sets.
    #[error("spec.patch changes {0}, which no patch of a pod may change")]
    FixedField(String),
    /// The patch removes the last container.
    #[error("spec.patch leaves the pod without containers")]
    NoContainers,
    /// The API server compares these fields with the PriorityClass.
    #[error(
        "spec.patch writes priorityClassName, priority or preemptionPolicy of a pod, and the result is of no known \
         PriorityClass; spec.priorityClassName of the profile writes all three"
    )]
    Priority,
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

impl ApplyError {
    /// Cause of the error.
    pub const fn kind(&self) -> FaultKind {
        match self {
            Self::UnknownClass(_) | Self::FixedField(_) | Self::Priority => FaultKind::Edit,
            Self::LongLabel(_)
            | Self::InvalidLabel { .. }
            | Self::NoContainers
            | Self::LargeMapping(_)
            | Self::NoObject(_)
            | Self::Patch(_)
            | Self::Type(_)
            | Self::Values(_) => FaultKind::Content,
        }
    }

    /// Path of the field that does not fit.
    pub fn field(&self) -> String {
        match self {
            Self::UnknownClass(_) | Self::Priority => "spec.priorityClassName".to_owned(),
            Self::LongLabel(key) | Self::InvalidLabel { key, .. } => format!("metadata.labels[{key}]"),
            Self::FixedField(path) => path.clone(),
            Self::NoContainers => "spec.containers".to_owned(),
            Self::LargeMapping(path) | Self::NoObject(path) => (*path).to_owned(),
            Self::Patch(error) => error.path().to_owned(),
            Self::Type(_) => "spec".to_owned(),
            Self::Values(errors) => {
                let first = errors.iter().next();
                first.map_or_else(|| "spec".to_owned(), |error| error.field().to_owned())
            }
        }
    }
}

/// Joins the messages of an error and its sources in one line.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let errors = iter::successors(Some(error), |&error| error.source());
    errors.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
