//! Computes the amplified value from raw and ratio, and the part of an earlier value that is still in force.

use super::{Basis, Given, Why};
use crate::{hint::Origin, ratio::Ratio, resource::Resource};

/// Of `raw`, what pods hold for themselves alone: CPUs that the kubelet's static policy took out of the shared pool. As
/// far as an agent says so: from the API it cannot be told.
pub(super) fn exclusive(resource: Resource, raw: u64, basis: &Basis<'_>) -> u64 {
    match (resource, basis.hint) {
        (Resource::Cpu, Some(found)) => found.note.excl.min(raw),
        (Resource::Cpu, None) | (Resource::Memory, _) => 0,
    }
}

/// `exclusive`, and the rest of `raw` times the ratio, cut off once; `raw` where that does not fit (G9).
pub(super) fn amplified(raw: u64, exclusive: u64, ratio: Ratio, why: &mut Vec<Why>) -> u64 {
    if exclusive > 0 && ratio != Ratio::ONE {
        why.push(Why::ExclusiveCpus);
    }
    let shared = ratio.apply(raw.saturating_sub(exclusive));
    shared
        .and_then(|shared| shared.checked_add(exclusive))
        .unwrap_or_else(|| {
            why.push(Why::Overflow);
            raw
        })
}

/// The most that a hint of that origin may come to, by raw and what is stored; `None` if nothing but bounds limits it. Whoever
/// may patch nodes may write what only the Node says: it keeps what is in force, and raises nothing.
pub(super) fn most(
    resource: Resource,
    origin: Origin,
    (raw, stored): (u64, Option<u64>),
    given: &Given<'_>,
) -> Option<u64> {
    match origin {
        Origin::Stream | Origin::Nudge => None,
        Origin::Annotation | Origin::Marker => {
            Some(unraised(in_force(resource, raw, stored, given), raw, stored))
        }
    }
}

/// A value that is made of the marker alone, and no more than is stored or raw: nobody measured what it is worth on a larger
/// machine.
pub(super) fn unraised(value: u64, raw: u64, stored: Option<u64>) -> u64 {
    value.min(stored.unwrap_or(raw).max(raw))
}

/// What is in force of the product that we applied last, on today's `raw`: no more than is stored, where others have lowered
/// that, and no less than raw. What pods held beyond it is for the floor, by what they hold today.
pub(super) fn in_force(resource: Resource, raw: u64, stored: Option<u64>, given: &Given<'_>) -> u64 {
    let kept = given
        .stored
        .and_then(|marker| marker.kept_product(resource, raw, stored));
    kept.unwrap_or(raw).max(raw)
}
