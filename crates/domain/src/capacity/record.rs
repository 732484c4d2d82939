//! Composes the annotations that a decision writes to the Node: the marker and the raw values, the hint, and in
//! `auto` the ratio.

use super::{
    Basis, ParsedWrite, ResourceDecision, Write,
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

/// Annotations to write together with the outcomes.
pub(super) fn annotations(
    write: &Write<'_>,
    basis: &Basis<'_>,
    given: &ParsedWrite<'_>,
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

/// Marker and raw annotation if they are kept, otherwise their removal.
pub(super) fn records(
    write: &Write<'_>,
    given: &ParsedWrite<'_>,
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

/// The hint annotation. It is written with the applied ratios when a hint is applied, and removed in mode `off`. It
/// stays while no hint has arrived, and while it is the only source of the hint and less is in force, so that a
/// returning agent continues from there. An unreadable annotation may come from a later version and stays too.
///
/// In `static` it informs replicas without the agent's stream of exclusive CPUs. It then stays after pods release
/// them: a replica that last saw some would write them again. A nudge with other exclusive CPUs than the replica's
/// own report is recorded too.
fn hint_annotation(
    write: &Write<'_>,
    basis: &Basis<'_>,
    given: &ParsedWrite<'_>,
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

/// Returns true if the hint comes only from the annotation and a lower ratio is applied.
fn is_held_back(found: &EffectiveHint, outcomes: &PerResource<ResourceDecision>) -> bool {
    let is_less = |resource| {
        let ResourceDecision { applied, hinted, .. } = outcomes.get(resource);
        applied.is_some() && *applied < hinted.map(Ratio::from_cents)
    };
    found.origin == Origin::Annotation && Resource::ALL.into_iter().any(is_less)
}

/// In `auto` the webhook owns the ratio annotation and saves the administrator's value; on leaving `auto` it restores
/// that.
fn ratio_annotations(
    write: &Write<'_>,
    basis: &Basis<'_>,
    given: &ParsedWrite<'_>,
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
