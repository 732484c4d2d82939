//! The floor on allocatable: unless the policy says `Floor::None`, it does not fall below the demand of the node's
//! admitted pods, within a cap. Requests of waiting pods may keep the stored value, but never add to it. While the demand
//! is unknown, nothing within the cap is lowered.

use super::{Basis, Given, Why, ratio};
use crate::{
    policy::{Floor, Mode},
    ratio::{Cents, Ratio},
    resource::Resource,
};

/// Pods hold a node at no more than this many times its raw value: the highest ratio that any policy may set.
const MOST_OF_RAW: u64 = 10;
/// The largest value of a quantity.
const LARGEST: u64 = i64::MAX as u64;

/// The demand of a node's pods for one resource, in milli-cores or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodDemand {
    /// Set aside by the kubelet for admitted pods: they run, and fail at its restart if allocatable is below this.
    pub admitted: u64,
    /// As above, with the bound pods that wait for the kubelet and fit into the stored allocatable.
    pub fit: u64,
}

/// The cap of the floor: raw times the mode's maximum, which counts as at least 1.00, or our last value on today's raw if that
/// is more; at most ten times raw.
pub(super) fn cap(resource: Resource, raw: u64, basis: &Basis<'_>, given: &Given<'_>) -> u64 {
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

/// `wanted`, or what the node's pods hold within `cap` if that is more: admitted pods whatever is stored, all that fit no
/// more than is stored. While it is not known what they hold, nothing is lowered.
pub(super) fn held_up(
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

/// `amount`, up to the next cent of `raw`.
fn covering(amount: u64, raw: u64) -> u64 {
    let cents = (u128::from(amount) * 100).div_ceil(u128::from(raw.max(1)));
    let floor = u128::from(raw) * cents / 100;
    u64::try_from(floor).unwrap_or(amount).max(amount)
}
