//! Step `conflict`: refuses labels by which several entries of one key in Koordinator's ConfigMap select the Node.

use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        endpoints::node_fields::{self, NodeCtx, NodeStep},
        refusal::Denial,
        review::shortened,
    },
    store::sources,
};

pub(super) static STEP: NodeStep = NodeStep {
    name: "conflict",
    when: When::On(&super::GATE),
    about: "Refuses label changes after which several entries of one key in Koordinator's ConfigMap select \
     the node; warns while they do.",
    reads: &[&sources::SLO_CONFIG],
    unknown: UnknownSource::IsHandled,
    run: check,
};

fn check(ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let strategies = ctx.store.strategies();
    if strategies.is_empty() || draft.is_as_stored(&["metadata", "labels"]) {
        return Ok(());
    }
    let (before, now) = (draft.old().map(node_fields::labels), node_fields::labels(draft));
    if let Some(before) = before {
        if before == now {
            return Ok(());
        }
        if let Some(conflict) = strategies.grown(&before, &now, ctx.switches) {
            let node = ctx.request.name.clone();
            return Err(Stop::Denied(Denial::Conflict { node, conflict }));
        }
    }
    // A Node that is being created is let in, as with Koordinator: a kubelet would go on asking.
    for conflict in strategies.conflicts(&now, ctx.switches) {
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
