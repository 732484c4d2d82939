//! Step `removal`: refuses to remove a quota that has parts or pods, or that Koordinator needs.

use std::sync::Arc;

use headroom_rules::quota::{Violations, removal, switches};

use super::tree::admitted;
use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        endpoints::quota_fields::{QuotaCtx, QuotaStep, refuse, stored_parts},
        review::Operation,
    },
    store::{quota::pending::AdmittedQuota, sources},
};

pub(super) static STEP: QuotaStep = QuotaStep {
    name: "removal",
    when: When::Always,
    about: "Refuses to remove a quota that has children or pods, or that is built in.",
    reads: &[&sources::QUOTAS, &sources::PODS_BY_NAME],
    unknown: UnknownSource::FailsTheCall,
    run: check,
};

fn check(ctx: &QuotaCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let request = ctx.request;
    if request.operation != Operation::Delete {
        return Ok(());
    }
    let ends_namespace = request.user.name == removal::NAMESPACE_CONTROLLER;
    if ends_namespace && ctx.switches.is_on(&switches::NAMESPACES_END) {
        return Ok(());
    }
    let quota = Arc::new(stored_parts(request, draft)?.quota());
    let mut found = Violations::default();
    let pending = ctx.store.decide(&mut |tree| {
        removal::check(&quota, tree, &mut found);
        let admitted = AdmittedQuota {
            is_removal: true,
            ..admitted(request, draft, Some(&*draft), Arc::clone(&quota))
        };
        (found.is_empty() && !request.is_dry_run).then(|| (quota.key(), admitted))
    });
    if let Some(pending) = pending {
        ctx.pending.push(pending);
    }
    refuse(ctx, found)
}
