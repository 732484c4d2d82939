//! Step `extended`: writes the batch resources of a Pod into the annotation that the node's agent reads.

use headroom_kit::gate::Gate;
use headroom_rules::completion;

use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
    endpoints::{
        draft_pod::DraftPod,
        pod_types::{PodCtx, PodStep},
    },
};

static DISABLED: Gate = Gate::negative(
    "DisableExtendedResourceSpec",
    "Leaves the annotation with the batch resources of pods unchanged.",
);

pub(super) static STEP: PodStep = PodStep {
    name: "extended",
    when: When::Off(&DISABLED),
    about: "Writes the batch resources of containers into the annotation extended-resource-spec, replacing a \
     client's value.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: annotate,
};

fn annotate(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    Ok(completion::annotate(&mut DraftPod(draft), ctx.switches)?)
}
