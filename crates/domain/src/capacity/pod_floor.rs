//! The floor on allocatable: unless the policy has `Floor::None`, allocatable stays at or above the demand of the
//! node's admitted pods, up to a cap. Requests of waiting pods and the places of pods that left may keep the stored
//! value, but never raise it. While the demand is unknown, no value within the cap is lowered.

use super::{Basis, ParsedWrite, PlaceLimits, PlaceSums, Why, Write, amount, ratio};
use crate::{
    estimate,
    hint::{Brake, Freshness, NoRaiseReason},
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
    /// Open places of pods that left, without the part that waiting pods in `fit` use.
    pub places: PlaceSums,
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

/// Places within their limits; none in `off` and `static`, where no measurement limits them.
pub(super) fn places(resource: Resource, raw: u64, write: &Write<'_>, basis: &Basis<'_>) -> PlaceSums {
    let is_measured = match basis.policy.mode {
        Mode::Off | Mode::Static => false,
        Mode::Guard | Mode::Auto => basis.policy.floor != Floor::None,
    };
    let Some(held) = basis.pod_demand.filter(|_| is_measured) else {
        return PlaceSums::default();
    };
    // Use of memory is limited by what pods may use, not by the machine.
    let capacity = match resource {
        Resource::Cpu => write.new.capacity.get(resource).as_ref(),
        Resource::Memory => None,
    };
    let capacity = capacity
        .and_then(|quantity| amount(resource, quantity))
        .unwrap_or(raw);
    let isolated = basis.hint.map_or(0, |found| *found.isolated.get(resource));
    let usable = capacity.saturating_sub(isolated);
    let safe = estimate::safe_use(resource, usable, raw, *basis.policy.target_ppm.get(resource));
    let limits = PlaceLimits::new(raw, usable, safe, brake(resource, basis));
    held.get(resource).places.within(&limits)
}

/// Brake of the hint in force. Without a hint that counts no brake is known, and places of other pods do not hold.
fn brake(resource: Resource, basis: &Basis<'_>) -> Brake {
    let Some(found) = basis.hint else {
        return Brake::Shed;
    };
    let is_void =
        found.freshness == Freshness::Stop || matches!(found.caution, Some(NoRaiseReason::Quarantined(_)));
    let least = if is_void { Brake::Shed } else { Brake::Off };
    found.note.resources().get(resource).brake().max(least)
}

/// `wanted`, or the demand of the node's pods within `cap` if that is larger. Admitted pods count in full, all
/// fitting pods and the places `open` only up to the stored value. While the demand is unknown, nothing is lowered.
pub(super) fn with_floor(
    resource: Resource,
    (raw, wanted, cap, open): (u64, u64, u64, u64),
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
    let PodDemand {
        admitted,
        fit,
        places: _,
    } = *held.get(resource);
    let needed = covering(admitted, raw);
    let with_places = covering(fit.saturating_add(open), raw).min(within);
    let (fit, admitted) = (covering(fit, raw).min(within), needed.min(cap));
    let result = wanted.max(with_places).max(admitted);
    if result > wanted {
        why.push(if admitted >= with_places {
            Why::FloorAdmitted
        } else if fit >= with_places {
            Why::FloorFit
        } else {
            Why::FloorPlaces
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
