//! Step `reserved`: refuses Pods with the annotation of the pods that stand for Reservations.

use std::collections::BTreeMap;

use headroom_rules::{pod_check::new_faults, reserved};

use super::{is_checked, part, refuse};
use crate::admission::{
    draft::{Draft, Fields},
    endpoint::{Stop, UnknownSource, When},
    endpoints::pod_types::{PodCtx, PodStep},
    error::StepError,
};

pub(super) static STEP: PodStep = PodStep {
    name: "reserved",
    when: When::Always,
    about: "Refuses pods with the annotation that marks pods of Reservations for the scheduler.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: check,
};

fn check(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if !is_checked(ctx) {
        return Ok(());
    }
    let faults = reserved::check(&annotations(draft)?);
    let stored = draft.old().map(annotations).transpose()?;
    let stored_faults = stored.map(|stored| move || reserved::check(&stored));
    let errors = new_faults(faults, stored_faults, ctx.switches);
    refuse(draft, errors)
}

/// Annotations by their keys; a value that is `null` counts as there.
fn annotations(pod: &impl Fields) -> Result<BTreeMap<String, Option<String>>, StepError> {
    part(pod, &["metadata", "annotations"])
}
