//! Step `shape`: refuses amounts that contradict each other, and unreadable annotations.

use headroom_rules::quota::{Violations, shape};

use crate::admission::{
    draft::Draft,
    endpoint::{Stop, UnknownSource, When},
    endpoints::quota_fields::{QuotaCtx, QuotaStep, change, refuse, rules},
    review::Operation,
};

pub(super) static STEP: QuotaStep = QuotaStep {
    name: "shape",
    when: When::Always,
    about: "Refuses negative amounts, min above max, max below current use if that is enabled, and \
     unreadable annotations.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: check,
};

fn check(ctx: &QuotaCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if ctx.request.operation == Operation::Delete {
        return Ok(());
    }
    let (change, rules) = (change(ctx.request, draft)?, rules(ctx));
    let mut found = Violations::default();
    if change.is_checked(rules) {
        shape::check(&change, rules, &mut found);
    }
    refuse(ctx, found)
}
