//! What a write's annotations say, read once for all rules.

use super::{
    Annotations, Write, amount,
    marker::{Marker, RawNote},
};
use crate::{
    policy::Mode,
    quantity::{Format, Quantity},
    ratio::Cents,
    resource::{PerResource, Resource},
};

/// The annotations of a write, read once.
pub(super) struct Given<'a> {
    /// What we wrote last on this Node.
    pub(super) marker: Option<Marker>,
    /// The saved raw values.
    pub(super) raw: PerResource<Option<Quantity>>,
    /// The administrator's ratio annotation, also while `auto` owns the key.
    pub(super) own_ratio: Option<&'a str>,
    /// The published ratios that the last decision saw.
    pub(super) last: Option<PerResource<Cents>>,
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
            hint,
            static_ratio,
            kubelet_raw: _,
        } = &write.new.annotations;
        let own_ratio = static_ratio
            .as_deref()
            .or(ratio.as_deref())
            .filter(|text| !text.is_empty());
        let note: Option<crate::hint::Note> = hint.as_deref().and_then(|text| text.parse().ok());
        Self {
            marker: Marker::parse(marker.as_deref(), Some(write.uid)),
            raw: RawNote::parse(raw.as_deref()),
            own_ratio,
            last: note
                .filter(|note| note.uid == write.uid)
                .map(|note| note.resources().map(|_, part| part.published())),
            is_managed: match mode {
                None | Some(Mode::Off) => false,
                Some(Mode::Static) => own_ratio.is_some(),
                Some(Mode::Guard | Mode::Auto) => true,
            },
        }
    }

    /// The family in which `raw` and what comes of it print: the kubelet's own. An amplified value can print in
    /// another one, so the value of the write counts only where it is raw or no raw value is recorded.
    pub(super) fn family(&self, resource: Resource, raw: u64, write: &Write<'_>) -> Option<Format> {
        let written = *write.new.allocatable.get(resource);
        let of_marker = self
            .marker
            .as_ref()
            .and_then(|marker| marker.raw_quantity(resource));
        let mut known = [written, *self.raw.get(resource), of_marker]
            .into_iter()
            .flatten();
        let is_raw = |value: &Quantity| amount(resource, value) == Some(raw);
        known.find(is_raw).or(written).map(|value| value.format())
    }

    /// True if an earlier decision left something on the Node.
    pub(super) fn has_traces(&self, annotations: &Annotations) -> bool {
        self.marker.is_some()
            || annotations.raw.is_some()
            || annotations.hint.is_some()
            || annotations.static_ratio.is_some()
    }
}
