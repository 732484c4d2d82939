//! Who may change the annotations that steer amplification: anyone but a kubelet.

use std::collections::BTreeSet;

use headroom_domain::names;

use crate::{
    draft::Draft,
    endpoint::{Ctx, Step, Stop},
    endpoints::node,
    error::Denial,
    review::shortened,
};

pub(super) static STEP: Step = Step {
    name: "writer",
    gate: super::GATE,
    about: "Refuses changes of ratio, raw and Headroom's own annotations by kubelets.",
    reads: &[],
    run: check,
};

fn check(ctx: &Ctx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if names::node_of_user(&ctx.request.user.name).is_none() {
        return Ok(());
    }
    let keys: BTreeSet<&str> = draft
        .old()
        .into_iter()
        .flat_map(node::protected_keys)
        .chain(node::protected_keys(draft))
        .collect();
    for key in keys {
        let stored = draft.old().and_then(|old| node::annotation(old, key));
        let value = node::annotation(draft, key);
        if value != stored {
            return Err(Stop::Denied(Denial::Value {
                field: node::annotation_field(key),
                value: shortened(&value.unwrap_or_default()),
                reason: "may not be set, changed or removed with a node's own credential".to_owned(),
            }));
        }
    }
    Ok(())
}
