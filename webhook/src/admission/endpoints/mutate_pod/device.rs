//! Step `device`: completes the GPU resources of containers.

use headroom_kit::gate::Gate;
use headroom_rules::completion;

use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
    endpoints::{
        draft_pod::DraftPod,
        pod_types::{PodCtx, PodStep},
    },
    review::Operation,
};

static DISABLED: Gate = Gate::negative(
    "DisableDeviceResourceSpec",
    "Leaves the device resources of pods unchanged.",
);

pub(super) static STEP: PodStep = PodStep {
    name: "device",
    when: When::Off(&DISABLED),
    about: "Turns percentages of GPUs into cores, memory and a number of cards, in requests and limits alike.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: complete,
};

/// The spec of a stored Pod cannot be changed, so this is for new ones.
fn complete(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if ctx.request.operation != Operation::Create {
        return Ok(());
    }
    Ok(completion::fill_devices(&mut DraftPod(draft), ctx.switches)?)
}
