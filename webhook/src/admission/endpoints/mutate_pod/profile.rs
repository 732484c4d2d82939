//! Step `profile`: applies the colocation profiles that are for a new Pod, and translates its cpu and memory afterwards.

use headroom_kit::gate::Gate;
use headroom_rules::{completion, profile::ProfileTarget, switch::Switches};

use crate::{
    admission::{
        draft::Draft,
        endpoint::{Colocation, Stop, UnknownSource, When},
        endpoints::{
            draft_pod::DraftPod,
            pod_types::{PodCtx, PodStep},
            profiles,
        },
        review::{Operation, Request},
    },
    store::sources::{COLOCATION_PROFILES, NAMESPACES, PRIORITY_CLASSES},
};

pub(super) static SKIPPED: Gate = Gate::negative(
    "ColocationProfileSkipMutatingResources",
    "Leaves cpu and memory of pods unchanged under every profile.",
);

pub(super) static STEP: PodStep = PodStep {
    name: "profile",
    when: When::Always,
    about: "Applies the colocation profiles that select a new pod, and turns its cpu and memory into the resources of its band.",
    reads: &[&COLOCATION_PROFILES, &NAMESPACES, &PRIORITY_CLASSES],
    unknown: UnknownSource::FailsCreation,
    run: apply,
};

/// True while a profile that would be applied to the Pod names a namespace or a PriorityClass that is not known.
pub(super) fn is_unknown(
    request: &Request,
    draft: &Draft<'_>,
    store: &Colocation,
    switches: &Switches,
) -> bool {
    profiles::is_unknown((request, draft), ProfileTarget::Pod, store, switches)
}

/// The spec of a stored Pod cannot be changed, so this is for new ones.
fn apply(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if ctx.request.operation != Operation::Create {
        return Ok(());
    }
    let translation = profiles::apply_all(ctx, ProfileTarget::Pod, draft)?;
    if translation.applies() && !ctx.gates.enabled(&SKIPPED) {
        completion::translate(&mut DraftPod(draft))?;
    }
    Ok(())
}
