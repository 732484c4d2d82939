//! Step `tree`: refuses a quota that its tree has no place for, and takes the place of one that it lets through.

use std::sync::Arc;

use headroom_rules::{
    pod_quota::LIMITS_ANCESTORS,
    quota::{Quota, QuotaChange, QuotaTree, Violations, larger_child, removal, topology},
    switch::Switches,
};

use crate::{
    admission::{
        draft::{Draft, Fields},
        endpoint::{Stop, UnknownSource, When},
        endpoints::quota_fields::{QuotaCtx, QuotaStep, change, refuse, rules, stored_parts},
        review::{Operation, Request},
    },
    store::{lookup::QuotaLookup, quota::pending::AdmittedQuota, sources},
};

pub(super) static STEP: QuotaStep = QuotaStep {
    name: "tree",
    when: When::Always,
    about: "Refuses parents that do not exist, are not parents or lie below the quota, resources that differ \
     from the tree's, and sums of min above the parent's.",
    // Whether a quota may become a parent depends on its pods.
    reads: &[&sources::QUOTAS, &sources::PODS_BY_NAME],
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
    let mut found = Violations::default();
    let mut unlimited = Vec::new();
    let pending = ctx.store.decide(&mut |tree| {
        topology::check(&change, tree, rules, &mut found);
        if !ctx.switches.is_on(&LIMITS_ANCESTORS) {
            unlimited = larger_child::find(&change.new, tree);
        }
        let new = Arc::new(Quota {
            before: before(&change, tree),
            ..change.new.clone()
        });
        let admitted = admitted(ctx.request, draft, draft.old(), Arc::clone(&new));
        (found.is_empty() && !ctx.request.is_dry_run).then(|| (new.key(), admitted))
    });
    if let Some(pending) = pending {
        ctx.pending.push(pending);
    }
    for warning in unlimited {
        draft.warn(warning);
    }
    refuse(ctx, found)
}

/// Quota that may be stored instead of the new one. The request contains the object that the API server would change,
/// even if this replica has not seen it; an object that it would not create, because it exists, may have been
/// admitted by this replica.
fn before(change: &QuotaChange, tree: &dyn QuotaTree) -> Option<Arc<Quota>> {
    let known = || tree.get(&change.new.namespace, &change.new.name);
    match change.old() {
        Some(old) => Some(Arc::new(old.clone())),
        None => known().map(|known| {
            Arc::new(Quota {
                is_going: tree.is_leaving(&known),
                ..known.with_few_versions()
            })
        }),
    }
}

/// Record of an admitted quota: `before` is the quota that it replaces.
pub(super) fn admitted<'a>(
    request: &Request,
    object: &impl Fields,
    before: Option<&(impl Fields + 'a)>,
    quota: Arc<Quota>,
) -> AdmittedQuota {
    let version = before.and_then(|before| text(before, "resourceVersion"));
    AdmittedQuota {
        uid: text(object, "uid").unwrap_or_default().into(),
        version: version.and_then(|text| text.parse().ok()).unwrap_or_default(),
        quota,
        is_removal: false,
        caller: request.caller,
    }
}

fn text(object: &impl Fields, name: &str) -> Option<String> {
    object.read(&["metadata", name]).ok().flatten()
}

/// True while the parent is unknown, or while the stored state of the parent, its children or the quota's children is
/// ambiguous: the watch will deliver it soon.
fn is_unsettled(quota: &Quota, tree: &dyn QuotaTree) -> bool {
    let has_parent = !quota.parent.is_empty() && !quota.is_first_level() && quota.parent != quota.name;
    let parent = tree.by_name(&quota.parent);
    let mut is_unsettled = has_parent && parent.is_none_or(|parent| parent.before.is_some());
    let mut note = |other: &Quota| is_unsettled |= other.before.is_some() && !other.is_same(quota);
    if has_parent {
        tree.visit_children(&quota.parent, &mut note);
    }
    tree.visit_children(&quota.name, &mut note);
    is_unsettled
}

/// True while a quota names a parent that is not known, or one is removed whose parts are still there: in one file, they come
/// and go shortly after each other, and some through other replicas.
pub(super) fn is_awaiting(
    request: &Request,
    draft: &Draft<'_>,
    store: &(dyn QuotaLookup + 'static),
    _switches: &Switches,
) -> bool {
    let Ok(parts) = stored_parts(request, draft) else {
        return false;
    };
    let quota = parts.quota();
    let mut is_awaiting = false;
    store.visit_tree(&mut |tree| {
        is_awaiting = if request.operation == Operation::Delete {
            removal::children(&quota, tree) > 0
        } else {
            is_unsettled(&quota, tree)
        };
    });
    is_awaiting
}
