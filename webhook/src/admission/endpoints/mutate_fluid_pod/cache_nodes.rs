//! Step `fluid-cache-nodes`: has a pod run near the data of its Datasets.

use std::collections::BTreeMap;

use headroom_rules::fluid::{
    locality::{PodLocality, place},
    plugins::Plugin,
};

use super::{
    FluidCtx, FluidStep, READS,
    opted_in::{OptedInPod, part},
};
use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
};

pub(super) static STEP: FluidStep = FluidStep {
    name: "fluid-cache-nodes",
    when: When::Always,
    about: "Prefers nodes near the data of each Dataset, or requires them where a label of the pod requires its claim (plugin NodeAffinityWithCache).",
    reads: &READS,
    unknown: UnknownSource::FailsSomeCalls,
    run: place_near_data,
};

fn place_near_data(ctx: &FluidCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Some(pod) = OptedInPod::read(ctx.request, draft, ctx.store)? else {
        return Ok(());
    };
    let Some(profile) = pod.profile_with(Plugin::NodeAffinityWithCache) else {
        return Ok(());
    };
    if pod.datasets.is_empty() {
        return Ok(());
    }
    let labels: BTreeMap<String, String> = part(draft, &["metadata", "labels"])?;
    let node_selector: BTreeMap<String, String> = part(draft, &["spec", "nodeSelector"])?;
    let chosen = PodLocality {
        labels: &labels,
        node_selector: &node_selector,
    };
    let rules = (&profile.localities, ctx.switches);
    draft.rewrite(&["spec", "affinity"], |affinity| {
        place(affinity, chosen, &pod.datasets, rules).map_err(Stop::from)
    })
}
