//! Step `names`: refuses names that another quota has, and namespaces that another quota lists.

use headroom_rules::quota::{Violations, names_check, switches};

use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        endpoints::quota_fields::{QuotaCtx, QuotaStep, change, refuse, rules},
        review::Operation,
    },
    store::sources,
};

pub(super) static STEP: QuotaStep = QuotaStep {
    name: "names",
    when: When::Always,
    about: "Refuses names that a quota of another namespace has, namespaces that another quota lists, and changes of the built-in quotas.",
    reads: &[&sources::QUOTAS],
    unknown: UnknownSource::FailsTheCall,
    run: check,
};

fn check(ctx: &QuotaCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if ctx.request.operation == Operation::Delete {
        return Ok(());
    }
    let (change, rules) = (change(ctx.request, draft)?, rules(ctx));
    if !change.is_checked(rules) {
        return Ok(());
    }
    let existing_passes = ctx.switches.is_on(&switches::EXISTING_PASSES);
    let mut found = Violations::default();
    ctx.store
        .visit_tree(&mut |tree| names_check::check(&change, tree, rules, existing_passes, &mut found));
    refuse(ctx, found)
}
