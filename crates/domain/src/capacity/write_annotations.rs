//! Reads the annotations of a write once, for all rules of a decision.

use super::{Annotations, Marker, RawNote, Write, amount};
use crate::{
    annotation::Annotation,
    policy::Mode,
    quantity::{Format, Quantity},
    ratio::{Cents, Ratios},
    resource::{PerResource, Resource},
};

/// The annotations of a write, read once.
pub(super) struct Given<'a> {
    /// What we wrote last on this Node, as the write carries it: an earlier call in the same request may have renewed it.
    pub(super) marker: Option<&'a Marker>,
    /// What we wrote last on this Node, as it is stored.
    pub(super) stored: Option<&'a Marker>,
    /// The saved raw values.
    pub(super) raw: PerResource<Option<Quantity>>,
    /// The administrator's ratio annotation, also while `auto` owns the key.
    pub(super) own_ratio: Option<&'a Annotation<Ratios>>,
    /// The ratios applied last, from which hints move on; 1.00 where none was.
    pub(super) last: PerResource<Cents>,
    /// True if the mode, or a ratio annotation in `static`, asks us to set allocatable. Where the mode is not known,
    /// nothing asks.
    pub(super) is_managed: bool,
}

impl<'a> Given<'a> {
    pub(super) fn read(write: &Write<'a>, mode: Option<Mode>) -> Self {
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
        // A Node made anew from a copy of an old one carries what was true of that one.
        let is_old_life = marker.is_none() && any_marker.is_some();
        let raw = raw.as_ref().filter(|_| !is_old_life);
        let stored = write.old.annotations.marker_of(write.uid);
        Self {
            last: last(write, stored),
            marker,
            stored,
            raw: raw.map(RawNote::values).unwrap_or_default(),
            own_ratio,
            is_managed: match mode {
                None | Some(Mode::Off) => false,
                Some(Mode::Static) => own_ratio.is_some(),
                Some(Mode::Guard | Mode::Auto) => true,
            },
        }
    }

    /// The format family in which `raw` and its products print: the kubelet's own. An amplified value can print in another
    /// family. So the value of the write counts only if it is raw, or if no raw value is recorded. Zero prints alike in all
    /// families, so a record of it has none.
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

/// True if an earlier decision, ours or Koordinator's, left something on the Node.
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

/// What the stored Node says was applied last: its hint annotation before the floor, else what we wrote and from what.
/// The write itself may carry what an earlier call in the same request made of it.
fn last(write: &Write<'_>, marker: Option<&Marker>) -> PerResource<Cents> {
    let note = write.old.annotations.note_of(write.uid);
    let written = |resource| marker?.ratio(resource);
    PerResource::from_fn(|resource| match note {
        Some(note) => note.resources().get(resource).published(),
        None => written(resource).unwrap_or(Cents::ONE),
    })
}
