//! Step `mode`: refuses a mode annotation that names no existing mode.

use headroom_domain::{names, policy::Mode};

use crate::admission::{
    draft::Draft,
    endpoint::{Ctx, Step, Stop},
    endpoints::node_fields,
    error::Denial,
    review::shortened,
};

pub(super) static STEP: Step = Step {
    name: "mode",
    gate: super::GATE,
    about: "Refuses modes that do not exist.",
    reads: &[],
    run: check,
};

fn check(_ctx: &Ctx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
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
