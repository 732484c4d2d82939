//! From a ratio to the value: what is amplified of raw, and what it never falls below.

use super::{Basis, Why};
use crate::{policy::Floor, ratio::Ratio, resource::Resource};

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

/// `wanted`, but never below what is bound to the node, to the next cent of `raw`.
pub(super) fn floored(
    resource: Resource,
    raw: u64,
    wanted: u64,
    stored: Option<u64>,
    basis: &Basis<'_>,
    why: &mut Vec<Why>,
) -> u64 {
    if basis.policy.floor == Floor::None {
        return wanted;
    }
    match basis.bound.map(|bound| *bound.get(resource)) {
        Some(bound) if bound > wanted => {
            why.push(Why::FloorRequests);
            let cents = (u128::from(bound) * 100).div_ceil(u128::from(raw.max(1)));
            let floor = u128::from(raw) * cents / 100;
            u64::try_from(floor).unwrap_or(bound).max(bound)
        }
        Some(_) => wanted,
        None => match stored {
            Some(stored) if stored > wanted && stored > raw => {
                why.push(Why::FloorUnknown);
                stored
            }
            Some(_) | None => wanted,
        },
    }
}
