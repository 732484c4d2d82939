//! Step `parent`: refuses Pods of a quota that has quotas below it, and changes of the label that makes a Pod
//! preemptible.

use headroom_kit::gate::{Gate, GateSet};
use headroom_rules::pod_quota::{ParentPods, check};

use super::part;
use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        endpoints::{
            pod_membership::PodLabels,
            pod_types::{PodCtx, PodStep},
        },
        error::StepError,
        refusal::Denial,
        review::Operation,
    },
    store::sources,
};

/// Quotas with quotas below them take pods as well.
pub(super) static PARENTS_TAKE_PODS: Gate = Gate::alpha(
    "SupportParentQuotaSubmitPod",
    "Lets pods belong to an ElasticQuota that has child quotas.",
);

pub(super) static STEP: PodStep = PodStep {
    name: "parent",
    when: When::Always,
    about: "Refuses pods in a quota with child quotas, and changes of the label that makes a pod preemptible.",
    reads: &[&sources::QUOTAS],
    // Unknown quotas do not block updates of a stored pod that stays in its quota.
    unknown: UnknownSource::FailsSomeCalls,
    run: refuse_parents,
};

/// Handling of pods in parent quotas under these gates.
pub(in crate::admission::endpoints) fn parents_by(gates: &GateSet) -> ParentPods {
    if gates.enabled(&PARENTS_TAKE_PODS) {
        ParentPods::Taken
    } else {
        ParentPods::Refused
    }
}

fn refuse_parents(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let is_written = matches!(ctx.request.operation, Operation::Create | Operation::Update);
    if !ctx.request.sub_resource.is_empty() || !is_written {
        return Ok(());
    }
    let namespace = ctx.request.namespace.as_str();
    let name: String = part(draft, &["metadata", "name"])?;
    let pod = PodLabels::read(ctx, draft)?;
    let stored = draft
        .old()
        .map(|stored| PodLabels::read(ctx, stored))
        .transpose()?;
    let known = &ctx.store.quotas.known;
    let moves = stored.as_ref().is_none_or(|stored| !pod.names_quota_of(stored));
    if moves && pod.may_have_quota() && !known.is_known(&sources::QUOTAS) {
        return Err(Stop::Failed(StepError::Unknown(sources::QUOTAS.name)));
    }
    let parents = parents_by(ctx.gates);
    let mut found = None;
    ctx.store.quotas.tree.visit_tree(&mut |tree| {
        let stored = stored.as_ref().map(|stored| stored.membership(namespace));
        found = check(
            &name,
            pod.membership(namespace),
            stored,
            parents,
            tree,
            ctx.switches,
        );
    });
    match found {
        None => Ok(()),
        Some((text, error)) => Err(Stop::Denied(Denial::Worded {
            text,
            fields: [error].into_iter().collect(),
        })),
    }
}
