//! Step `mode`: refuses a mode annotation that names no existing mode.

use headroom_domain::{names, policy::Mode};

use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
    endpoints::node_fields::{self, NodeCtx, NodeStep},
    refusal::Denial,
    review::shortened,
};

pub(super) static STEP: NodeStep = NodeStep {
    name: "mode",
    when: When::On(&super::GATE),
    about: "Refuses modes that do not exist.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: check,
};

fn check(_ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Some(text) = super::written(draft, names::MODE) else {
        return Ok(());
    };
    if text.parse::<Mode>().is_ok() {
        return Ok(());
    }
    Err(Stop::Denied(Denial::Value {
        field: node_fields::annotation_field(names::MODE),
        value: shortened(&text),
        reason: format!("must be one of {}", Mode::ALL.map(Mode::name).join(", ")),
    }))
}
