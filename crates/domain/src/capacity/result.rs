//! Computes the amplified value from raw and ratio, and the part of an earlier value that is still in force.

use super::{Basis, ParsedWrite, Why};
use crate::{hint::Origin, ratio::Ratio, resource::Resource};

/// Exclusive CPUs within `raw`: CPUs that the kubelet's static CPU manager took out of the shared pool, as reported
/// by the agent. The API does not contain them.
pub(super) fn exclusive(resource: Resource, raw: u64, basis: &Basis<'_>) -> u64 {
    match (resource, basis.hint) {
        (Resource::Cpu, Some(found)) => found.note.excl.min(raw),
        (Resource::Cpu, None) | (Resource::Memory, _) => 0,
    }
}

/// `exclusive` plus the rest of `raw` times the ratio, truncated once; `raw` if that does not fit 63 bits (G9).
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

/// Largest value for a hint of that origin; `None` if only the bounds limit it. Any user with the right to patch
/// nodes can write a hint that only the Node carries: it keeps the value in force and raises nothing.
pub(super) fn most(
    resource: Resource,
    origin: Origin,
    (raw, stored): (u64, Option<u64>),
    given: &ParsedWrite<'_>,
) -> Option<u64> {
    match origin {
        Origin::Stream | Origin::Nudge => None,
        Origin::Annotation | Origin::Marker => {
            Some(unraised(in_force(resource, raw, stored, given), raw, stored))
        }
    }
}

/// `value`, at most the larger of raw and the stored value: a value derived only from the marker was never measured
/// on a larger machine.
pub(super) fn unraised(value: u64, raw: u64, stored: Option<u64>) -> u64 {
    value.min(stored.unwrap_or(raw).max(raw))
}

/// Part of the last applied product that is in force on today's `raw`: at most the stored value if other clients have
/// lowered that, and at least raw. The demand of pods beyond it is handled by the floor.
pub(super) fn in_force(resource: Resource, raw: u64, stored: Option<u64>, given: &ParsedWrite<'_>) -> u64 {
    let kept = given
        .stored
        .and_then(|marker| marker.kept_product(resource, raw, stored));
    kept.unwrap_or(raw).max(raw)
}
