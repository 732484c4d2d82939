//! Step `fluid-mount-propagation`: lets containers see a Dataset that is mounted again.

use headroom_rules::fluid::{
    mounts::{propagate, volumes_of},
    plugins::Plugin,
};

use super::{FluidCtx, FluidStep, READS, opted_in::OptedInPod};
use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
};

pub(super) static STEP: FluidStep = FluidStep {
    name: "fluid-mount-propagation",
    when: When::Always,
    about: "Sets the propagation of mounts of Datasets that have none to HostToContainer (plugin MountPropagationInjector).",
    reads: &READS,
    unknown: UnknownSource::FailsSomeCalls,
    run: set_propagation,
};

fn set_propagation(ctx: &FluidCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Some(pod) = OptedInPod::read(ctx.request, draft, ctx.store)? else {
        return Ok(());
    };
    if pod.datasets.is_empty() || pod.profile_with(Plugin::MountPropagationInjector).is_none() {
        return Ok(());
    }
    let volumes = volumes_of(&pod.volumes, &pod.datasets);
    draft.rewrite(&["spec", "containers"], |containers| {
        propagate(containers, &volumes);
        Ok(())
    })
}
