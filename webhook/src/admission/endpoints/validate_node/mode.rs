//! Step `mode`: refuses a mode annotation that names no existing mode.

use headroom_domain::{names, policy::Mode};

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
    name: "mode",
    when: When::On(&super::GATE),
    about: "Refuses modes that do not exist; warns of a mode that the policy ignores.",
    reads: &[&sources::NODES],
    unknown: UnknownSource::IsHandled,
    run: check,
};

fn check(ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Some(text) = super::written(draft, names::MODE) else {
        return Ok(());
    };
    let field = node_fields::annotation_field(names::MODE);
    if let Ok(mode) = text.parse::<Mode>() {
        let policy = node_fields::configured_policy(ctx, draft);
        if let Some(policy) = policy.filter(|policy| policy.with_mode(mode).is_none()) {
            draft.warn(format!("{field}: {}", node_fields::ignored(policy)));
        }
        return Ok(());
    }
    Err(Stop::Denied(Denial::Value {
        field,
        value: shortened(&text),
        reason: format!("must be one of {}", Mode::ALL.map(Mode::name).join(", ")),
    }))
}
