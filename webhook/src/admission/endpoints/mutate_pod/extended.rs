//! Step `extended`: writes the batch resources of a Pod into the annotation that the node's agent reads.

use headroom_domain::names;
use headroom_kit::gate::Gate;
use headroom_rules::{change::AnnotationChange, extended};

use crate::admission::{
    draft::{Draft, Fields as _},
    endpoint::{Stop, UnknownSource, When},
    endpoints::pod_types::{PodCtx, PodStep},
    error::StepError,
};

static DISABLED: Gate = Gate::negative(
    "DisableExtendedResourceSpec",
    "Leaves the annotation with the batch resources of pods as it is.",
);

pub(super) static STEP: PodStep = PodStep {
    name: "extended",
    when: When::Off(&DISABLED),
    about: "Writes the batch resources of containers into the annotation extended-resource-spec, whatever a client wrote there.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: annotate,
};

const ANNOTATION: [&str; 3] = ["metadata", "annotations", names::EXTENDED_RESOURCE_SPEC];

fn annotate(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let containers = super::containers(draft)?;
    // The annotation is the webhook's own: what is no text there is replaced as well.
    let current: Option<String> = draft.read(&ANNOTATION).unwrap_or_default();
    match extended::annotation(&containers, current.as_deref(), ctx.switches) {
        AnnotationChange::Keep => {}
        AnnotationChange::Set(text) => draft.set(&ANNOTATION, text).map_err(StepError::from)?,
        AnnotationChange::Remove => draft.remove(&ANNOTATION),
    }
    Ok(())
}
