//! Takes back what a kubelet's credential wrote to annotations that are not its own.

use std::collections::BTreeSet;

use headroom_domain::{capacity, names};
use serde_json::Value;

use crate::{
    draft::{Draft, Fields, Tree},
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
    let mut foreign = Vec::new();
    let keys: BTreeSet<String> = node::protected_keys(old)
        .chain(node::protected_keys(draft))
        .collect();
    for key in keys {
        let stored = read(old, &key)?;
        if stored != read(draft, &key)? {
            foreign.push((key, stored));
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    if is_reinvoked(old, draft) {
        foreign.retain(|(key, _)| !KEPT_ON_REINVOCATION.contains(&key.as_str()));
    }
    for (key, stored) in foreign {
        match stored {
            Some(value) => draft
                .set(&node::annotation_path(&key), value)
                .map_err(StepError::Write)?,
            None => draft.remove(&node::annotation_path(&key)),
        }
    }
    Ok(())
}

fn is_reinvoked(old: &Tree<'_>, draft: &Draft<'_>) -> bool {
    capacity::is_reinvoked(&node::state(old), &node::state(draft))
}

fn read(fields: &impl Fields, key: &str) -> Result<Option<Value>, StepError> {
    fields
        .read(&node::annotation_path(key))
        .map_err(|source| StepError::Read {
            field: node::annotation_field(key),
            source,
        })
}
