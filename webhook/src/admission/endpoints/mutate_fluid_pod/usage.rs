//! Step `fluid-usage`: records the Datasets of a pod.

use headroom_domain::names::FLUID_DATASETS_IN_USE;
use headroom_rules::fluid::{plugins::Plugin, usage::in_use};

use super::{
    FluidCtx, FluidStep, READS,
    opted_in::{OptedInPod, text},
};
use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
    error::StepError,
};

pub(super) static STEP: FluidStep = FluidStep {
    name: "fluid-usage",
    when: When::Always,
    about: "Records the names of the Datasets in an annotation of the pod (plugin DatasetUsageInjector).",
    reads: &READS,
    unknown: UnknownSource::FailsSomeCalls,
    run: record_datasets,
};

fn record_datasets(ctx: &FluidCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Some(pod) = OptedInPod::read(ctx.request, draft, ctx.store)? else {
        return Ok(());
    };
    if pod.datasets.is_empty() || pod.profile_with(Plugin::DatasetUsageInjector).is_none() {
        return Ok(());
    }
    let names = {
        let present = text(draft, "annotations", FLUID_DATASETS_IN_USE);
        in_use(present.as_deref(), &pod.datasets)
    };
    let Some(names) = names else {
        return Ok(());
    };
    let path = ["metadata", "annotations", FLUID_DATASETS_IN_USE];
    Ok(draft.set(&path, names).map_err(StepError::from)?)
}
