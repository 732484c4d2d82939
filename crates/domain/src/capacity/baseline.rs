//! Finds the raw value in a write of `nodes/status`: the kubelet's own allocatable, before amplification.
//!
//! A kubelet's write need not contain allocatable: it is a difference against the kubelet's copy of the Node, so the
//! merged object can carry a value that this webhook wrote. Hence: a value equal to the webhook's last one stands for
//! the saved raw value, any other value from the kubelet is raw, and values from any other writer are carried through.
//! Other admission webhooks may raise the values that they receive, before this webhook or after it: a value above
//! capacity is never raw, or each of the two would amplify the result of the other. Of two records of raw the marker
//! counts: the raw annotation has Koordinator's name, and Headroom is not its only writer.

use super::{Given, Marker, NodeState, Why, Write, Writer, amount};
use crate::{
    quantity::Quantity,
    ratio::Ratios,
    resource::{PerResource, Resource},
};

/// The raw value of `resource`, and what is odd about `now`, the value in the write. An error is the reason why no raw
/// value can be told.
pub(super) fn baseline(
    resource: Resource,
    now: u64,
    write: &Write<'_>,
    given: &Given<'_>,
) -> Result<(u64, Option<Why>), Why> {
    if let Some(raw) = handed_over(resource, write, given) {
        return Ok((raw, None));
    }
    let saved = saved(resource, given.marker, &given.raw, write.new);
    let written = written_last(resource, saved, given);
    let stored = write.old.amount(resource);
    // The order is behaviour. Our own value comes first, or a kubelet that sends it back would make it raw. Capacity comes before
    // every rule that takes the value of the write.
    Ok(match (written, saved) {
        (Some(written), Some(saved)) if written == now => {
            let is_raw_now = write.is_sync() && capacity_says(resource, now, saved, write, given);
            (if is_raw_now { now } else { saved }, None)
        }
        // We wrote it, by a marker whose raw value the node does not have: what it was made of cannot be told. An earlier call in
        // this request has dropped that from the marker of the write, and what is stored still says it.
        (_, None) if is_marked(resource, now, given) => return Err(Why::AboveCapacity),
        _ if is_above_capacity(resource, now, write.new) => {
            let unheard = unheard(resource, write, given).filter(|_| !write.is_sync());
            let raw = unheard.or(saved).ok_or(Why::AboveCapacity)?;
            (raw, Some(Why::AboveCapacity))
        }
        _ if write.is_sync() => (now, None),
        _ if stored != Some(now) => (now, Some(Why::ForeignWriter)),
        // Written while we were away: whoever wrote it, it is not ours.
        (Some(_), _) if given.marker.is_some() => (now, None),
        (_, saved) => (saved.unwrap_or(now), None),
    })
}

/// The raw value that is recorded: the marker's, else the raw annotation's; neither if it exceeds capacity.
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

/// True if the node does not have that much; what a kubelet says of itself never exceeds its capacity.
fn is_above_capacity(resource: Resource, now: u64, state: &NodeState) -> bool {
    let capacity = state.capacity.get(resource).as_ref();
    capacity
        .and_then(|capacity| amount(resource, capacity))
        .is_some_and(|capacity| now > capacity)
}

/// What is stored, if it is not what the marker says we wrote: told while we were away, and hidden by a value that says
/// nothing.
fn unheard(resource: Resource, write: &Write<'_>, given: &Given<'_>) -> Option<u64> {
    let written = given.marker?.value(resource)?;
    let stored = write.old.amount(resource)?;
    (stored != written && !is_above_capacity(resource, stored, write.new)).then_some(stored)
}

/// True if the floor policy put another value in the place of the one that the kubelet sent.
pub(super) fn is_handed_over(resource: Resource, write: &Write<'_>, given: &Given<'_>) -> bool {
    handed_over(resource, write, given).is_some()
}

/// G0: what the floor policy saw the kubelet send in this very request. In anyone else's write the note is a leftover of
/// the kubelet's last one, and says nothing that the marker does not: the policy replaces only the marker's own raw value, so
/// a note of any other is not the policy's.
fn handed_over(resource: Resource, write: &Write<'_>, given: &Given<'_>) -> Option<u64> {
    let note = write.new.annotations.kubelet_raw.as_ref()?.value()?;
    let is_of_this_request =
        write.writer == Writer::Kubelet && note.at.is_some() && note.at == write.new.ready_heartbeat;
    let value = note
        .values
        .get(resource)
        .as_ref()
        .filter(|_| is_of_this_request)?;
    let told = amount(resource, value)?;
    let fits = !is_above_capacity(resource, told, write.new);
    (fits && given.stored?.raw(resource) == Some(told)).then_some(told)
}

/// True if a marker, of the write or stored, says that we wrote this value.
fn is_marked(resource: Resource, now: u64, given: &Given<'_>) -> bool {
    let mut markers = [given.marker, given.stored].into_iter().flatten();
    markers.any(|marker| marker.value(resource) == Some(now))
}

/// The value we wrote last: the marker's, else what Koordinator's webhook would have written.
fn written_last(resource: Resource, saved: Option<u64>, given: &Given<'_>) -> Option<u64> {
    if let Some(marker) = given.marker {
        return marker.value(resource);
    }
    let Ratios(ratios) = given.own_ratio?.value()?;
    ratios.get(resource).and_then(|ratio| ratio.apply(saved?))
}

/// G1a: true if capacity changed and, with the reservation unchanged, raw really became `now`.
fn capacity_says(resource: Resource, now: u64, saved: u64, write: &Write<'_>, given: &Given<'_>) -> bool {
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
