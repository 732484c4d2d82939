//! Step `spec`: refuses a Reservation that the scheduler could not read, and on request one that it would leave alone.

use headroom_rules::reservation;
use serde_json::Value;

use crate::admission::{
    draft::{Draft, Fields as _},
    endpoint::{Stop, UnknownSource, When},
    endpoints::pod_types::{PodCtx, PodStep},
    error::StepError,
    refusal::Denial,
};

pub(super) static STEP: PodStep = PodStep {
    name: "spec",
    when: When::Always,
    about: "Refuses a Reservation with a field of another type, an invalid time, or an invalid amount in its \
     template.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: check,
};

fn check(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let spec: Option<Value> = draft.read(&["spec"]).map_err(|source| StepError::Read {
        field: "spec".to_owned(),
        source,
    })?;
    let spec = spec.unwrap_or_default();
    reservation::check_types(&spec).map_err(|error| Denial::Text(error.to_string()))?;
    let mut errors = reservation::check_values(&spec);
    if ctx.switches.is_on(&reservation::NEEDS_SPEC) {
        let needs = reservation::check_needs(&spec);
        needs.iter().for_each(|error| errors.push(error.clone()));
    }
    errors
        .into_result()
        .map_err(|errors| Denial::Fields(errors).into())
}
