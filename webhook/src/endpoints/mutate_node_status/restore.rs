//! Takes back what a kubelet's credential wrote to annotations that are not its own.

use std::collections::BTreeSet;

use headroom_domain::{capacity, names};

use crate::{
    draft::Draft,
    endpoint::{Ctx, Step, Stop},
    endpoints::node,
    error::StepError,
    review::Operation,
};

pub(super) static STEP: Step = Step {
    name: "restore",
    gate: super::GATE,
    about: "Restores ratio, raw and Headroom's own annotations in status writes by kubelets.",
    reads: &[],
    run: restore,
};

/// Annotations that stay when this endpoint is called again in the same request: they say which values are ours.
/// They hold nothing that a kubelet could not also claim by sending it as allocatable.
const KEPT_ON_REINVOCATION: [&str; 2] = [names::MARKER, names::RAW_ALLOCATABLE];

fn restore(ctx: &Ctx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let is_kubelet = names::node_of_user(&ctx.request.user.name).is_some();
    let is_update = ctx.request.operation == Operation::Update;
    if !is_kubelet || !is_update || draft.is_as_stored(&["metadata", "annotations"]) {
        return Ok(());
    }
    let Some(old) = draft.old() else { return Ok(()) };
    let keys: BTreeSet<String> = node::protected_keys(old)
        .chain(node::protected_keys(draft))
        .map(str::to_owned)
        .collect();
    let is_reinvoked = keys
        .iter()
        .any(|key| !draft.is_as_stored(&node::annotation_path(key)))
        && capacity::is_reinvoked(&node::state(old), &node::state(draft));
    for key in keys {
        if !(is_reinvoked && KEPT_ON_REINVOCATION.contains(&key.as_str())) {
            draft
                .put_back(&node::annotation_path(&key))
                .map_err(StepError::from)?;
        }
    }
    Ok(())
}
