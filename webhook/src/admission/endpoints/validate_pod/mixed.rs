//! Step `mixed`: warns of containers with cpu or memory in a new pod that requests the resources of its band.

use headroom_rules::{container::Containers, mixed_resources::warning};

use super::part;
use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        endpoints::pod_types::{PodCtx, PodStep},
        review::Operation,
    },
    store::sources::LIMIT_RANGES,
};

pub(super) static STEP: PodStep = PodStep {
    name: "mixed",
    when: When::Always,
    about: "Warns of containers with cpu or memory in a new batch or mid pod, which a LimitRange or a later webhook adds.",
    reads: &[&LIMIT_RANGES],
    // Without them the warning names no LimitRange.
    unknown: UnknownSource::IsHandled,
    run: check,
};

#[expect(clippy::unnecessary_wraps, reason = "the type of a step's function")]
fn check(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let request = ctx.request;
    if request.operation != Operation::Create || !request.sub_resource.is_empty() {
        return Ok(());
    }
    // A pod that cannot be read is a matter of the other steps: no pod fails because of a warning.
    let Ok(containers) = part::<Containers>(draft, &["spec"]) else {
        return Ok(());
    };
    let limit_ranges = ctx.store.limit_ranges.limit_ranges(&request.namespace);
    if let Some(text) = warning(&containers, &limit_ranges) {
        draft.warn(text);
    }
    Ok(())
}
