//! Step `fluid-nodes-without-cache`: has a pod without Datasets run elsewhere.

use headroom_rules::fluid::{node_terms::prefer_without_data, plugins::Plugin};

use super::{FluidCtx, FluidStep, READS, opted_in::OptedInPod};
use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
};

pub(super) static STEP: FluidStep = FluidStep {
    name: "fluid-nodes-without-cache",
    when: When::Always,
    about: "Prefers nodes without cached data for a pod without Datasets (plugin PreferNodesWithoutCache).",
    reads: &READS,
    unknown: UnknownSource::FailsSomeCalls,
    run: prefer_other_nodes,
};

fn prefer_other_nodes(ctx: &FluidCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Some(pod) = OptedInPod::read(ctx.request, draft, ctx.store)? else {
        return Ok(());
    };
    if !pod.datasets.is_empty() || pod.profile_with(Plugin::PreferNodesWithoutCache).is_none() {
        return Ok(());
    }
    draft.rewrite(&["spec", "affinity"], |affinity| {
        prefer_without_data(affinity).map_err(Stop::from)
    })
}
