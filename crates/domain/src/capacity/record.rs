//! Composes the annotations that a decision writes to the Node: the marker and the raw values, the hint, and in `auto`
//! the ratio.

use super::{
    Basis, Given, ResourceDecision, Write,
    marker::{Marker, RawNote},
    quantity,
};
use crate::{
    annotation::Annotation,
    hint::{EffectiveHint, Origin},
    names,
    policy::Mode,
    ratio::{self, Cents, Ratio},
    resource::{PerResource, Resource},
};

/// The annotations to write beside the outcomes.
pub(super) fn annotations(
    write: &Write<'_>,
    basis: &Basis<'_>,
    given: &Given<'_>,
    outcomes: &PerResource<ResourceDecision>,
) -> Vec<(&'static str, Option<String>)> {
    let is_lifted = Resource::ALL.into_iter().any(|resource| {
        let ResourceDecision { raw, result, .. } = outcomes.get(resource);
        result > raw
    });
    let mut annotations = records(write, given, outcomes, given.is_managed || is_lifted);
    annotations.extend(hint_annotation(write, basis, given, outcomes));
    annotations.extend(ratio_annotations(write, basis, given, outcomes));
    annotations
}

/// The annotations that say what was decided from what, where they are to stay; removed otherwise.
pub(super) fn records(
    write: &Write<'_>,
    given: &Given<'_>,
    outcomes: &PerResource<ResourceDecision>,
    are_kept: bool,
) -> Vec<(&'static str, Option<String>)> {
    let raw = RawNote::text(&outcomes.map(|resource, outcome| {
        let raw = outcome.raw?;
        Some(quantity(resource, raw, given.family(resource, raw, write)?))
    }));
    let marker = Marker::for_write(write, given, outcomes).map(|marker| marker.to_string());
    vec![
        (names::KUBELET_RAW, None),
        (names::MARKER, marker.filter(|_| are_kept)),
        (names::RAW_ALLOCATABLE, raw.filter(|_| are_kept)),
    ]
}

/// The hint annotation: written where a hint is applied, with the ratios that it came to, removed where none is, kept
/// while none has come yet, and where the annotation itself is all that says so and less is in force: an agent that comes
/// back goes on from there. One that cannot be read may be a later version's and stays, too. In `static` it tells replicas
/// without the agent which CPUs pods hold for themselves. Once there, it stays when pods hold none any more: a replica that
/// last heard of some would write them again. A nudge that says so is recorded too where the replica's own report says otherwise.
fn hint_annotation(
    write: &Write<'_>,
    basis: &Basis<'_>,
    given: &Given<'_>,
    outcomes: &PerResource<ResourceDecision>,
) -> Option<(&'static str, Option<String>)> {
    let applied = outcomes.map(|resource, outcome| {
        let ResourceDecision { hinted, ratio, .. } = outcome;
        hinted.or(*ratio).unwrap_or(*given.last.get(resource))
    });
    let written = |found: &EffectiveHint| found.note.clone().with_ratios(&applied).to_string();
    match basis.policy.mode {
        Mode::Off => Some((names::HINT, None)),
        Mode::Static => {
            let is_stored = write.old.annotations.note_of(write.uid).is_some();
            let is_needed = |found: &&EffectiveHint| found.note.excl > 0 || is_stored || found.is_record_due;
            let needed = basis.hint.filter(|_| given.is_managed).filter(is_needed);
            Some((names::HINT, needed.map(written)))
        }
        Mode::Guard | Mode::Auto => {
            let found = basis.hint.filter(|found| found.origin != Origin::Marker)?;
            if is_held_back(found, outcomes) {
                return None;
            }
            Some((names::HINT, Some(written(found))))
        }
    }
}

/// True if the hint is the annotation's alone, and less is applied than it came to.
fn is_held_back(found: &EffectiveHint, outcomes: &PerResource<ResourceDecision>) -> bool {
    let is_less = |resource| {
        let ResourceDecision { applied, hinted, .. } = outcomes.get(resource);
        applied.is_some() && *applied < hinted.map(Ratio::from_cents)
    };
    found.origin == Origin::Annotation && Resource::ALL.into_iter().any(is_less)
}

/// In `auto` the ratio key is ours and the administrator's value is put aside; on leaving `auto` it is put back.
fn ratio_annotations(
    write: &Write<'_>,
    basis: &Basis<'_>,
    given: &Given<'_>,
    outcomes: &PerResource<ResourceDecision>,
) -> Vec<(&'static str, Option<String>)> {
    let put_aside = write.new.annotations.static_ratio.as_ref().map(Annotation::text);
    if basis.policy.mode == Mode::Auto {
        if basis.hint.is_none() && put_aside.is_none() {
            return Vec::new();
        }
        let ratios = outcomes.map(|resource, outcome| {
            let is_on = basis.policy.bounds.get(resource).max > Cents::ONE;
            outcome.ratio.filter(|_| is_on).map(|cents| cents.max(Cents::ONE))
        });
        let own = put_aside
            .or(given.own_ratio.map(Annotation::text))
            .unwrap_or_default()
            .to_owned();
        return vec![
            (names::RATIO, ratio::annotation(&ratios)),
            (names::STATIC_RATIO, Some(own)),
        ];
    }
    put_aside.map_or_else(Vec::new, |own| {
        let own = (!own.is_empty()).then(|| own.to_owned());
        vec![(names::RATIO, own), (names::STATIC_RATIO, None)]
    })
}
