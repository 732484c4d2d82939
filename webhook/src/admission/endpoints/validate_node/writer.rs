//! Step `writer`: refuses changes by the wrong user to Node annotations that steer amplification or record it.

use std::collections::BTreeSet;

use headroom_domain::names;

use crate::admission::{
    annotation_permissions::{self, AnnotationChange},
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
    endpoints::node_fields::{self, NodeCtx, NodeStep},
    refusal::Denial,
    review::shortened,
};

pub(super) static STEP: NodeStep = NodeStep {
    name: "writer",
    when: When::On(&super::GATE),
    about: "Refuses changes of annotations that only the webhook writes, unknown keys of Headroom, and any \
     of these by kubelets.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: check,
};

fn check(ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if draft.is_as_stored(&["metadata", "annotations"]) {
        return Ok(());
    }
    let old = draft.old();
    let keys: BTreeSet<&str> = old
        .into_iter()
        .flat_map(node_fields::guarded_keys)
        .chain(node_fields::guarded_keys(draft))
        .collect();
    for key in keys {
        let stored = old.and_then(|old| node_fields::annotation(old, key));
        let value = node_fields::annotation(draft, key);
        let change = match &value {
            _ if value == stored => continue,
            Some(_) => AnnotationChange::Written,
            None => AnnotationChange::Removed,
        };
        // A dry run stores nothing, and `kubectl headroom off` asks with it for the next decision.
        if key == names::KUBELET_RAW && ctx.request.is_dry_run {
            continue;
        }
        let (user, ours) = (&ctx.request.user, ctx.store.webhook_user());
        if let Some(reason) = annotation_permissions::refusal(user, ours, key, change) {
            return Err(Stop::Denied(Denial::Value {
                field: node_fields::annotation_field(key),
                value: shortened(&value.unwrap_or_default()),
                reason,
            }));
        }
    }
    Ok(())
}
