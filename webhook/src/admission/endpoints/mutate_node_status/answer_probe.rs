//! Step `answer-probe`: answers the probe of a replica, a dry run of `nodes/status`, with a warning. It shows that the
//! API server reaches a replica, and if it presented a client certificate.

use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        endpoints::node_fields::{NodeCtx, NodeStep},
    },
    store::caller::ReviewCaller,
};

/// Warning of an answered probe. [`PROBE_ANSWER_VERIFIED`] follows if the review came from a verified API server.
pub const PROBE_ANSWER: &str = "headroom.sh: a replica answered the probe";
/// End of the warning if the API server presented its client certificate.
pub const PROBE_ANSWER_VERIFIED: &str = " of a verified API server";

pub(super) static STEP: NodeStep = NodeStep {
    name: "answer-probe",
    when: When::On(&super::GATE),
    about: "Answers dry runs of the webhook's own account with a warning: each replica sends one every minute.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: answer,
};

#[expect(clippy::unnecessary_wraps, reason = "the type of a step's function")]
fn answer(ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if !ctx.request.is_dry_run || ctx.request.user.name != ctx.store.webhook_user() {
        return Ok(());
    }
    let of_whom = match ctx.request.caller {
        ReviewCaller::Verified => PROBE_ANSWER_VERIFIED,
        ReviewCaller::Unverified => "",
    };
    draft.warn(format!("{PROBE_ANSWER}{of_whom}"));
    Ok(())
}
