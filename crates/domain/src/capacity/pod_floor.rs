//! The floor on allocatable: unless the policy has `Floor::None`, allocatable stays at or above the demand of the
//! node's admitted pods, up to a cap. Requests of waiting pods may keep the stored value, but never raise it. While
//! the demand is unknown, no value within the cap is lowered.

use super::{Basis, ParsedWrite, Why, ratio};
use crate::{
    policy::{Floor, Mode},
    ratio::{Cents, Ratio},
    resource::Resource,
};

/// Pods can hold allocatable at up to this multiple of raw: the highest ratio that any policy may set.
const MOST_OF_RAW: u64 = 10;
/// Largest value of a quantity.
const LARGEST: u64 = i64::MAX as u64;

/// Demand of a node's pods for one resource, in milli-cores or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodDemand {
    /// Allocated by the kubelet for admitted pods. They are running, and fail at a restart of the kubelet if
    /// allocatable is lower.
    pub admitted: u64,
    /// `admitted` plus the bound pods that wait for the kubelet and fit the stored allocatable.
    pub fit: u64,
}

/// Cap of the floor: raw times the mode's maximum (at least 1.00), or the last written value scaled to today's raw if
/// that is larger; at most ten times raw.
pub(super) fn cap(resource: Resource, raw: u64, basis: &Basis<'_>, given: &ParsedWrite<'_>) -> u64 {
    let highest = match basis.policy.mode {
        Mode::Off => Ratio::ONE,
        Mode::Static => ratio::annotated(resource, basis.policy, given),
        Mode::Guard | Mode::Auto => Ratio::from_cents(basis.policy.bounds.get(resource).max.max(Cents::ONE)),
    };
    let by_mode = highest.apply(raw).unwrap_or(raw);
    let written = given
        .stored
        .and_then(|marker| marker.rescaled(resource, raw))
        .unwrap_or(0);
    by_mode
        .max(written)
        .min(raw.saturating_mul(MOST_OF_RAW))
        .min(LARGEST)
}

/// `wanted`, or the demand of the node's pods within `cap` if that is larger. Admitted pods count in full, all
/// fitting pods only up to the stored value. While the demand is unknown, nothing is lowered.
pub(super) fn with_floor(
    resource: Resource,
    (raw, wanted, cap): (u64, u64, u64),
    stored: Option<u64>,
    basis: &Basis<'_>,
    why: &mut Vec<Why>,
) -> u64 {
    if basis.policy.floor == Floor::None {
        return wanted;
    }
    let within = stored.unwrap_or(0).min(cap);
    let Some(held) = basis.pod_demand else {
        if within > wanted {
            why.push(Why::FloorUnknown);
        }
        return wanted.max(within);
    };
    let PodDemand { admitted, fit } = *held.get(resource);
    let needed = covering(admitted, raw);
    let (fit, admitted) = (covering(fit, raw).min(within), needed.min(cap));
    let result = wanted.max(fit).max(admitted);
    if result > wanted {
        why.push(if admitted >= fit {
            Why::FloorAdmitted
        } else {
            Why::FloorFit
        });
    }
    if needed > result {
        why.push(Why::FloorCapped);
    }
    result
}

/// `amount`, rounded up to the next cent of `raw`.
fn covering(amount: u64, raw: u64) -> u64 {
    let cents = (u128::from(amount) * 100).div_ceil(u128::from(raw.max(1)));
    let floor = u128::from(raw) * cents / 100;
    u64::try_from(floor).unwrap_or(amount).max(amount)
}
