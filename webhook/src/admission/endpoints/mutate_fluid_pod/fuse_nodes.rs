//! Step `fluid-fuse-nodes`: has a pod run where the clients of its Datasets may run.

use headroom_rules::fluid::{node_terms::require_fuse, plugins::Plugin};

use super::{FluidCtx, FluidStep, READS, opted_in::OptedInPod};
use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
};

pub(super) static STEP: FluidStep = FluidStep {
    name: "fluid-fuse-nodes",
    when: When::Always,
    about: "Requires nodes on which the clients of all Datasets of a pod may run (plugin RequireNodeWithFuse).",
    reads: &READS,
    unknown: UnknownSource::FailsSomeCalls,
    run: require_nodes,
};

fn require_nodes(ctx: &FluidCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Some(pod) = OptedInPod::read(ctx.request, draft, ctx.store)? else {
        return Ok(());
    };
    if pod.datasets.is_empty() || pod.profile_with(Plugin::RequireNodeWithFuse).is_none() {
        return Ok(());
    }
    draft.rewrite(&["spec", "affinity"], |affinity| {
        require_fuse(affinity, &pod.datasets, ctx.switches).map_err(Stop::from)
    })
}
