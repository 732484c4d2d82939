//! Step `device`: refuses Pods that ask for GPUs in amounts that cards do not have.

use headroom_domain::pod::PodSpec;
use headroom_kit::gate::Gate;
use headroom_rules::device;

use super::{is_checked, part, refuse};
use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
    endpoints::pod_types::{PodCtx, PodStep},
};

static GATE: Gate = Gate::alpha(
    "ValidatePodDeviceResource",
    "Checks the device resources of pods.",
);

pub(super) static STEP: PodStep = PodStep {
    name: "device",
    when: When::On(&GATE),
    about: "Refuses containers that request GPUs both in percent and in cards, or invalid amounts of cards.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: check,
};

fn check(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if !is_checked(ctx) {
        return Ok(());
    }
    let spec: PodSpec = part(draft, &["spec"])?;
    let stored: Option<PodSpec> = draft.old().map(|stored| part(stored, &["spec"])).transpose()?;
    let errors = device::check::check(&spec, stored.as_ref(), ctx.switches);
    refuse(draft, errors)
}
