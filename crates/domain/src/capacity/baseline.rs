//! Finds the raw value in a write of `nodes/status`: the kubelet's own allocatable, before amplification.
//!
//! A kubelet's write need not contain allocatable: it is a patch against the kubelet's copy of the Node, so the
//! merged object can carry a value that this webhook wrote. Hence a value equal to the webhook's last one stands for
//! the saved raw value, any other value from the kubelet is raw, and values from any other client are passed through.
//! Other admission webhooks may raise the values before or after this webhook. Therefore a value above capacity is
//! never raw, or each of the two webhooks would amplify the result of the other. Of the two records of raw the marker
//! takes precedence: the raw annotation has Koordinator's name, and other controllers write it too.

use super::{Marker, NodeState, ParsedWrite, Why, Write, Writer, amount};
use crate::{
    quantity::Quantity,
    ratio::Ratios,
    resource::{PerResource, Resource},
};

/// Raw value of `resource`, and the reason if `now`, the value in the write, is unusual. The error is the reason why
/// raw cannot be determined.
pub(super) fn baseline(
    resource: Resource,
    now: u64,
    write: &Write<'_>,
    given: &ParsedWrite<'_>,
) -> Result<(u64, Option<Why>), Why> {
    if let Some(raw) = substituted(resource, write, given) {
        return Ok((raw, None));
    }
    let saved = saved(resource, given.marker, &given.raw, write.new);
    let written = last_written(resource, saved, given);
    let stored = write.old.amount(resource);
    // The order matters. The webhook's own value comes first, otherwise a kubelet that sends it back would turn it
    // into raw. Capacity comes before every rule that accepts the value of the write.
    Ok(match (written, saved) {
        (Some(written), Some(saved)) if written == now => {
            let is_raw_now = write.is_sync() && matches_new_capacity(resource, now, saved, write, given);
            (if is_raw_now { now } else { saved }, None)
        }
        // The webhook wrote the value, but the marker's raw value is above capacity, so its origin cannot be
        // determined. An earlier call in this request has dropped that raw value from the write's marker; the stored
        // marker still has it.
        (_, None) if is_marked(resource, now, given) => return Err(Why::AboveCapacity),
        _ if is_above_capacity(resource, now, write.new) => {
            let missed_value = missed_value(resource, write, given).filter(|_| !write.is_sync());
            let raw = missed_value.or(saved).ok_or(Why::AboveCapacity)?;
            (raw, Some(Why::AboveCapacity))
        }
        _ if write.is_sync() => (now, None),
        _ if stored != Some(now) => (now, Some(Why::ForeignWriter)),
        // Written while the webhook was down: whichever client wrote it, it is not amplified.
        (Some(_), _) if given.marker.is_some() => (now, None),
        (_, saved) => (saved.unwrap_or(now), None),
    })
}

/// Recorded raw value: from the marker, otherwise from the raw annotation. A value above capacity is ignored.
pub(super) fn saved(
    resource: Resource,
    marker: Option<&Marker>,
    raw: &PerResource<Option<Quantity>>,
    state: &NodeState,
) -> Option<u64> {
    let fits = |raw: &u64| !is_above_capacity(resource, *raw, state);
    let of_annotation = || amount(resource, raw.get(resource).as_ref()?).filter(fits);
    let of_marker = marker.and_then(|marker| marker.raw(resource)).filter(fits);
    of_marker.or_else(of_annotation)
}

/// Returns true if the value exceeds the node's capacity, which a kubelet's own allocatable never does.
fn is_above_capacity(resource: Resource, now: u64, state: &NodeState) -> bool {
    let capacity = state.capacity.get(resource).as_ref();
    capacity
        .and_then(|capacity| amount(resource, capacity))
        .is_some_and(|capacity| now > capacity)
}

/// Stored value if it differs from the marker's: it was written while the webhook was down.
fn missed_value(resource: Resource, write: &Write<'_>, given: &ParsedWrite<'_>) -> Option<u64> {
    let written = given.marker?.value(resource)?;
    let stored = write.old.amount(resource)?;
    (stored != written && !is_above_capacity(resource, stored, write.new)).then_some(stored)
}

/// Returns true if the floor policy has replaced the value that the kubelet sent.
pub(super) fn is_substituted(resource: Resource, write: &Write<'_>, given: &ParsedWrite<'_>) -> bool {
    substituted(resource, write, given).is_some()
}

/// G0: value that the floor policy recorded for this request. In another client's write the note is left over from
/// the kubelet's last request and adds nothing to the marker. The policy replaces only the marker's raw value, so a
/// note with another value does not come from the policy.
fn substituted(resource: Resource, write: &Write<'_>, given: &ParsedWrite<'_>) -> Option<u64> {
    let note = write.new.annotations.kubelet_raw.as_ref()?.value()?;
    let is_of_this_request =
        write.writer == Writer::Kubelet && note.at.is_some() && note.at == write.new.ready_heartbeat;
    let value = note
        .values
        .get(resource)
        .as_ref()
        .filter(|_| is_of_this_request)?;
    let sent = amount(resource, value)?;
    let fits = !is_above_capacity(resource, sent, write.new);
    (fits && given.stored?.raw(resource) == Some(sent)).then_some(sent)
}

/// Returns true if the marker of the write, or the stored one, has this value.
fn is_marked(resource: Resource, now: u64, given: &ParsedWrite<'_>) -> bool {
    let mut markers = [given.marker, given.stored].into_iter().flatten();
    markers.any(|marker| marker.value(resource) == Some(now))
}

/// Last value written: from the marker, otherwise the value that Koordinator's webhook would have written.
fn last_written(resource: Resource, saved: Option<u64>, given: &ParsedWrite<'_>) -> Option<u64> {
    if let Some(marker) = given.marker {
        return marker.value(resource);
    }
    let Ratios(ratios) = given.own_ratio?.value()?;
    ratios.get(resource).and_then(|ratio| ratio.apply(saved?))
}

/// G1a: returns true if capacity has changed and, with an unchanged reservation, raw has become `now`.
fn matches_new_capacity(
    resource: Resource,
    now: u64,
    saved: u64,
    write: &Write<'_>,
    given: &ParsedWrite<'_>,
) -> bool {
    let before = given.marker.and_then(|marker| marker.capacity(resource));
    let after = write
        .new
        .capacity
        .get(resource)
        .as_ref()
        .and_then(|value| amount(resource, value));
    match (before, after) {
        (Some(before), Some(after)) if before != after => {
            before
                .checked_sub(saved)
                .and_then(|reserved| after.checked_sub(reserved))
                == Some(now)
        }
        _ => false,
    }
}
