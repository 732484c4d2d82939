//! [`ParsedWrite`]: the annotations of a write, read once for all rules of a decision.

use super::{Annotations, Marker, RawNote, Write, amount};
use crate::{
    annotation::Annotation,
    policy::{Mode, Policy},
    quantity::{Format, Quantity},
    ratio::{Cents, Ratios},
    resource::{PerResource, Resource},
};

/// Annotations of a write, read once.
pub(super) struct ParsedWrite<'a> {
    /// Marker in the write; an earlier call in the same request may have renewed it.
    pub(super) marker: Option<&'a Marker>,
    /// Marker in the stored object.
    pub(super) stored: Option<&'a Marker>,
    /// Recorded raw values, as quantities.
    pub(super) raw: PerResource<Option<Quantity>>,
    /// The administrator's ratio annotation, also while `auto` owns the key.
    pub(super) own_ratio: Option<&'a Annotation<Ratios>>,
    /// True if the policy lets the ratio annotation apply.
    pub(super) has_ratio: bool,
    /// Last applied ratios, from which hints move on; 1.00 if none was applied.
    pub(super) last: PerResource<Cents>,
    /// True if the mode, or a ratio annotation in `static`, makes Headroom set allocatable; false if the mode is not
    /// known.
    pub(super) is_managed: bool,
}

impl<'a> ParsedWrite<'a> {
    pub(super) fn read(write: &Write<'a>, policy: Option<&Policy>) -> Self {
        let Annotations {
            ratio,
            raw,
            marker,
            hint: _,
            static_ratio,
            kubelet_raw: _,
        } = &write.new.annotations;
        let own_ratio = static_ratio
            .as_ref()
            .or(ratio.as_ref())
            .filter(|annotation| !annotation.text().is_empty());
        let any_marker = marker.as_ref().and_then(Annotation::value);
        let marker = write.new.annotations.marker_of(write.uid);
        // A Node recreated from a copy of an old one has records that belong to the old one.
        let is_old_life = marker.is_none() && any_marker.is_some();
        let raw = raw.as_ref().filter(|_| !is_old_life);
        let stored = write.old.annotations.marker_of(write.uid);
        let has_ratio = policy.is_none_or(|policy| policy.annotations.has_ratio());
        Self {
            last: last(write, stored),
            marker,
            stored,
            raw: raw.map(RawNote::values).unwrap_or_default(),
            own_ratio,
            has_ratio,
            is_managed: match policy.map(|policy| policy.mode) {
                None | Some(Mode::Off) => false,
                Some(Mode::Static) => has_ratio && own_ratio.is_some(),
                Some(Mode::Guard | Mode::Auto) => true,
            },
        }
    }

    /// Format family in which `raw` and its products print: the kubelet's own. An amplified value can print in
    /// another family, so the value of the write counts only if it is raw or no raw value is recorded. Zero prints
    /// alike in all families, so a record of zero has none.
    pub(super) fn family(&self, resource: Resource, raw: u64, write: &Write<'_>) -> Option<Format> {
        let written = *write.new.allocatable.get(resource);
        let of_marker = self.marker.and_then(|marker| marker.raw_quantity(resource));
        let mut known = [written, *self.raw.get(resource), of_marker]
            .into_iter()
            .flatten();
        let is_raw = |value: &Quantity| raw > 0 && amount(resource, value) == Some(raw);
        known.find(is_raw).or(written).map(|value| value.format())
    }
}

/// Returns true if an earlier decision of Headroom or Koordinator has left records on the Node.
pub(super) fn has_traces(annotations: &Annotations) -> bool {
    let Annotations {
        raw,
        marker,
        hint,
        static_ratio,
        ratio: _,
        kubelet_raw: _,
    } = annotations;
    raw.is_some() || marker.is_some() || hint.is_some() || static_ratio.is_some()
}

/// Last applied ratio by the stored Node: from its hint annotation, before the floor, otherwise from the marker. The
/// write itself may contain the result of an earlier call in the same request.
fn last(write: &Write<'_>, marker: Option<&Marker>) -> PerResource<Cents> {
    let note = write.old.annotations.note_of(write.uid);
    let written = |resource| marker?.ratio(resource);
    PerResource::from_fn(|resource| match note {
        Some(note) => note.resources().get(resource).published(),
        None => written(resource).unwrap_or(Cents::ONE),
    })
}
