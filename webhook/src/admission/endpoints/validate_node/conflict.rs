//! Step `conflict`: refuses labels by which several entries of one key in Koordinator's ConfigMap select the Node.

use headroom_domain::names;

use crate::admission::{
    draft::Draft,
    endpoint::{Access, Ctx, Step, Stop},
    endpoints::node_fields,
    error::Denial,
    review::shortened,
};

pub(super) static STEP: Step = Step {
    name: "conflict",
    gate: super::GATE,
    about: "Refuses label changes by which several entries of one key in Koordinator's ConfigMap come to select the node; warns while they do.",
    reads: &[Access::watch_named("", "configmaps", &[names::SLO_CONFIG])],
    run: check,
};

fn check(ctx: &Ctx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let strategies = ctx.nodes.strategies();
    if strategies.is_empty() || draft.is_as_stored(&["metadata", "labels"]) {
        return Ok(());
    }
    let (before, now) = (draft.old().map(node_fields::labels), node_fields::labels(draft));
    if let Some(before) = before {
        if before == now {
            return Ok(());
        }
        if let Some(conflict) = strategies.grown(&before, &now) {
            let node = ctx.request.name.clone();
            return Err(Stop::Denied(Denial::Conflict { node, conflict }));
        }
    }
    // A Node that is being created is let in, as with Koordinator: a kubelet would go on asking.
    for conflict in strategies.conflicts(&now) {
        let entries: Vec<String> = conflict
            .entries
            .iter()
            .map(|entry| format!("{:?}", shortened(entry)))
            .collect();
        draft.warn(format!(
            "metadata.labels: several entries of {} select this node, and the first one counts: {}",
            conflict.key,
            entries.join(", ")
        ));
    }
    Ok(())
}
