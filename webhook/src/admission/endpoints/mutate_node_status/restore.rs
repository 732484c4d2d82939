//! Step `restore`: undoes changes that a status write makes to annotations of Headroom, ratio or mode. Users change
//! them through `nodes`, which `/validate-node` checks.

use std::collections::BTreeSet;

use headroom_domain::{
    capacity::{self, Annotations},
    names,
};

use crate::admission::{
    draft::{Draft, Tree},
    endpoint::{Stop, UnknownSource, When},
    endpoints::node_fields::{self, NodeCtx, NodeStep},
    error::StepError,
    review::Operation,
};

pub(super) static STEP: NodeStep = NodeStep {
    name: "restore",
    when: When::On(&super::GATE),
    about: "Restores Headroom's annotations, the ratio and the mode in status writes of all users except the \
     webhook.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: restore,
};

/// Annotations that stay when this endpoint is called again in the same request: they mark our values. A client gains
/// nothing by writing them that it could not gain by sending allocatable.
const KEPT_ON_REINVOCATION: [&str; 2] = [names::MARKER, names::RAW_ALLOCATABLE];

fn is_reinvoked(old: &Tree<'_>, draft: &Draft<'_>) -> bool {
    let old = node_fields::state(old, &Annotations::default());
    capacity::is_reinvoked(&old, &node_fields::state(draft, &old.annotations))
}

fn restore(ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let user = ctx.request.user.name.as_str();
    let is_update = ctx.request.operation == Operation::Update;
    if user == ctx.store.webhook_user() || !is_update || draft.is_as_stored(&["metadata", "annotations"]) {
        return Ok(());
    }
    let Some(old) = draft.old() else { return Ok(()) };
    let keys: BTreeSet<String> = node_fields::guarded_keys(old)
        .chain(node_fields::guarded_keys(draft))
        .filter(|key| *key != names::KUBELET_RAW)
        .map(str::to_owned)
        .collect();
    let is_reinvoked = keys
        .iter()
        .any(|key| !draft.is_as_stored(&node_fields::annotation_path(key)))
        && is_reinvoked(old, draft);
    for key in keys {
        if !(is_reinvoked && KEPT_ON_REINVOCATION.contains(&key.as_str())) {
            draft
                .put_back(&node_fields::annotation_path(&key))
                .map_err(StepError::from)?;
        }
    }
    Ok(())
}
