//! Step `fluid-datasets`: refuses a pod whose claims or Datasets cannot be used yet. The client tries again.

use headroom_domain::names::FLUID_PREFETCH;
use headroom_rules::{fluid::plugins::Plugin, switch::Switches};

use super::{
    FluidCtx, FluidStep, READS,
    opted_in::{OptedInPod, PodFault, text},
};
use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        review::Request,
    },
    store::lookup::FluidLookup,
};

pub(super) static STEP: FluidStep = FluidStep {
    name: "fluid-datasets",
    when: When::Always,
    about: "Refuses a pod with a claim that does not exist, or with a Dataset that Fluid has not bound.",
    reads: &READS,
    // Only the sources of its own Datasets matter to a pod.
    unknown: UnknownSource::FailsSomeCalls,
    run: check,
};

/// True while a claim, a Dataset or a runtime of the pod is not known.
pub(super) fn is_missing(
    request: &Request,
    draft: &Draft<'_>,
    store: &dyn FluidLookup,
    _switches: &Switches,
) -> bool {
    match OptedInPod::read(request, draft, store) {
        Err(PodFault::Dataset(error)) => error.is_missing(),
        Ok(_) | Err(PodFault::TooManyClaims(_) | PodFault::Read(_)) => false,
    }
}

fn check(ctx: &FluidCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Some(pod) = OptedInPod::read(ctx.request, draft, ctx.store)? else {
        return Ok(());
    };
    let wants_prefetch = text(draft, "annotations", FLUID_PREFETCH).is_some_and(|text| text == "true");
    if wants_prefetch && pod.profile_with(Plugin::FilePrefetcher).is_some() {
        draft.warn(format!(
            "annotation {FLUID_PREFETCH}: Headroom serves this pod and adds no prefetching container"
        ));
    }
    Ok(())
}
