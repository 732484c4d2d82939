//! Step `quota`: refuses Pods that exceed their quota. It is the last step, and an admitted Pod counts immediately.

use std::time::Instant;

use headroom_domain::{
    amounts::Amounts,
    field::{Error, Path},
    names,
    pod::Pod,
};
use headroom_kit::gate::{Gate, GateSet};
use headroom_rules::{
    pod_quota::{
        CHECKS_GROWTH, CountedPod, Level, QuotaCheckError, Transformation, Usage, evaluated, growth,
        is_limited, levels, requested,
    },
    quota::QuotaTree,
    switch::Switches,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{is_checked, part};
use crate::{
    admission::{
        draft::{Draft, Fields},
        endpoint::{Colocation, Stop, UnknownSource, When},
        endpoints::{
            pod_membership::PodLabels,
            pod_types::{PodCtx, PodStep},
        },
        error::StepError,
        refusal::Denial,
        review::{Operation, Request},
    },
    store::{
        quota_levels::QuotaLevels,
        quota_pods::counting::{QuotaCounting, TerminatingPods},
        quota_request::{PodGroup, PodName, QuotaRequest, check_resources},
        sources,
    },
};

static GATE: Gate = Gate::alpha(
    "EnableQuotaAdmission",
    "Refuses pods that exceed the unused part of their ElasticQuota.",
);

/// Stored pods that move to another quota are compared with it.
pub(super) static ON_UPDATE: Gate = Gate::alpha(
    "EnableQuotaAdmissionOnUpdate",
    "Checks a pod that moves to another ElasticQuota against that quota, if EnableQuotaAdmission is on.",
);

/// Resources are renamed by an annotation of the pod: needs both gates, as with Koordinator.
pub(super) static TRANSFORMS: [Gate; 2] = [
    Gate::alpha(
        "ElasticQuotaEvaluationTransformPod",
        "Renames resources of a pod by its annotation before the quota check, if \
         ReplaceResourcesTransformer is on as well.",
    ),
    Gate::alpha(
        "ReplaceResourcesTransformer",
        "Lets the annotation pod.koordinator.sh/replace-resources rename resources of a pod.",
    ),
];

/// Gates about the pods that count, and the parts of their requests; they can be set at the start only.
pub(in crate::admission) static COUNTING: [Gate; 3] = [
    Gate::negative(
        "ElasticQuotaIgnorePodOverhead",
        "Leaves the overhead of a RuntimeClass out of the requests that count against an ElasticQuota.",
    ),
    Gate::negative(
        "ElasticQuotaIgnoreTerminatingPod",
        "Ends the count of a pod under deletion once its grace has passed twice, and 30 seconds after its grace at the \
         latest. Without the gate it is always 30 seconds after.",
    ),
    Gate::negative(
        "ElasticQuotaImmediateIgnoreTerminatingPod",
        "Ends the count of a pod at its deletion mark.",
    ),
];

pub(in crate::admission::endpoints) static STEP: PodStep = PodStep {
    name: "quota",
    when: When::On(&GATE),
    about: "Refuses pods, and growing requests of stored pods, that exceed the unused part of their \
     ElasticQuota.",
    reads: &[&sources::QUOTAS, &sources::QUOTA_PODS],
    // A pod that stays as large as it is can always be changed.
    unknown: UnknownSource::FailsSomeCalls,
    run: evaluate,
};

/// Rules about counted pods under these gates.
pub(in crate::admission) fn counting_by(gates: &GateSet) -> QuotaCounting {
    let [overhead, twice, never] = &COUNTING;
    QuotaCounting {
        ignores_overhead: gates.enabled(overhead),
        terminating: if gates.enabled(never) {
            TerminatingPods::Never
        } else if gates.enabled(twice) {
            TerminatingPods::UntilGraceTwice
        } else {
            TerminatingPods::UntilOverdue
        },
    }
}

/// True while a new Pod names a quota that is not known, or its controller is ahead of the watch, and quotas are
/// evaluated.
pub(super) fn is_awaiting(
    request: &Request,
    draft: &Draft<'_>,
    store: &Colocation,
    _switches: &Switches,
) -> bool {
    let quotas = &store.quotas;
    if request.operation != Operation::Create || !quotas.known.is_known(&sources::QUOTA_PODS) {
        return false;
    }
    if is_ahead(request, draft, store) {
        return true;
    }
    let label = draft.read(&["metadata", "labels", names::QUOTA_NAME]);
    let Some(label) = label
        .unwrap_or_default()
        .filter(|label: &String| !label.is_empty())
    else {
        return false;
    };
    let mut is_known = false;
    quotas
        .tree
        .visit_tree(&mut |tree| is_known = tree.count_named(&label) > 0);
    !is_known
}

/// True while more pods of the Pod's controller were admitted and not stored than were stored lately.
fn is_ahead(request: &Request, draft: &Draft<'_>, store: &Colocation) -> bool {
    let (Ok(controller), Ok(name)) = (controller(draft), part::<String>(draft, &["metadata", "name"])) else {
        return false;
    };
    let pod = PodName {
        namespace: request.namespace.as_str().into(),
        name: name.into(),
    };
    !controller.is_empty() && store.quotas.pod_usage.is_ahead(&pod, &controller, Instant::now())
}

/// UID of a Pod's controller; empty if it has none.
fn controller(draft: &Draft<'_>) -> Result<String, StepError> {
    let owners: Vec<OwnerReference> = part(draft, &["metadata", "ownerReferences"])?;
    let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
    Ok(controller.map(|controller| controller.uid).unwrap_or_default())
}

fn evaluate(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let operation = ctx.request.operation;
    if !is_checked(ctx) || !matches!(operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    let namespace = ctx.request.namespace.as_str();
    let labels = PodLabels::read(ctx, draft)?;
    let stored = stored_pod(ctx, draft)?;
    let asked = requests(ctx, draft)?;
    // Most updates request no more, under any quotas.
    let grows = stored
        .as_ref()
        .is_none_or(|(_, before)| !growth(&asked, before).is_empty());
    let is_compared = |stays: bool| match (&stored, stays) {
        (None, _) => true,
        (Some(_), true) => grows && ctx.switches.is_on(&CHECKS_GROWTH),
        (Some(_), false) => ctx.gates.enabled(&ON_UPDATE),
    };
    let stays = stored
        .as_ref()
        .is_some_and(|(before, _)| labels.names_quota_of(before));
    if labels.may_have_quota() && is_compared(stays) {
        check_known(ctx)?;
    }
    let mut levels = Ok(None);
    ctx.store.quotas.tree.visit_tree(&mut |tree| {
        let membership = labels.membership(namespace);
        let name = membership.quota(tree);
        let before = stored
            .as_ref()
            .map(|(labels, asked)| (labels.membership(namespace).quota(tree), asked));
        let stays = before.as_ref().is_some_and(|(quota, _)| *quota == name);
        if is_compared(stays) && is_limited(&name) {
            let before = before
                .as_ref()
                .map(|(quota, requested)| CountedPod { quota, requested });
            levels = levels_of(ctx, &name, &asked, before, tree)
                .map(|levels| Some(QuotaLevels::new(levels, membership.has_default, tree)));
        }
    });
    let Some(levels) = levels? else {
        return Ok(());
    };
    check_resources(&asked).map_err(|error| Stop::Denied(Denial::Text(error.to_string())))?;
    let request = QuotaRequest {
        pod: PodName {
            namespace: namespace.into(),
            name: part::<String>(draft, &["metadata", "name"])?.into(),
        },
        uid: part::<String>(draft, &["metadata", "uid"])?.into(),
        group: PodGroup::new(labels.membership(namespace).label(), namespace),
        requested: asked,
        replaced: replaced(draft)?,
        levels: levels.groups(),
        resources: levels.resources(),
        transformation: transformation(ctx),
        controller: controller_of_new(operation, draft)?.into(),
        caller: ctx.request.caller,
    };
    ask_for_room(ctx, &levels, request)
}

/// UID of the controller of a new Pod; empty for a stored one.
fn controller_of_new(operation: Operation, draft: &Draft<'_>) -> Result<String, StepError> {
    if operation == Operation::Create {
        controller(draft)
    } else {
        Ok(String::new())
    }
}

/// A Pod of an update as it is stored.
fn stored_pod(ctx: &PodCtx<'_>, draft: &Draft<'_>) -> Result<Option<(PodLabels, Amounts)>, StepError> {
    let old = draft.old().filter(|_| ctx.request.operation == Operation::Update);
    old.map(|old| Ok((PodLabels::read(ctx, old)?, requests(ctx, old)?)))
        .transpose()
}

/// Fails the call while quotas or their pods are not known: a quota that is not known is not missing.
fn check_known(ctx: &PodCtx<'_>) -> Result<(), Stop> {
    let known = &ctx.store.quotas.known;
    let unknown = STEP.reads.iter().find(|source| !known.is_known(source));
    unknown.map_or(Ok(()), |source| {
        Err(Stop::Failed(StepError::Unknown(source.name)))
    })
}

/// Compares with the current use, and counts the Pod from now on.
fn ask_for_room(ctx: &PodCtx<'_>, levels: &QuotaLevels, request: QuotaRequest) -> Result<(), Stop> {
    let quotas = &ctx.store.quotas;
    let noted = levels.noted(quotas.tree.as_ref(), ctx.switches);
    let mut answer = None;
    let mut fits = |used: &[Usage]| {
        let result = levels.check(used, &noted, ctx.switches);
        let fits = result.is_ok();
        answer = Some(result);
        fits
    };
    if ctx.request.is_dry_run {
        if let Some(used) = quotas.pod_usage.usage(&request, Instant::now()) {
            fits(&used);
        }
    } else {
        let pending = quotas.pod_usage.admit(request, Instant::now(), &mut fits);
        if let Some(pending) = pending.map_err(StepError::from)? {
            ctx.pending.push(pending);
        }
    }
    match answer {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(Stop::Denied(refusal(&error))),
        None => Err(Stop::Failed(StepError::Unknown(sources::QUOTA_PODS.name))),
    }
}

/// Quotas that must have enough left, from the named one upwards. `before` is the amount that the Pod has already.
fn levels_of(
    ctx: &PodCtx<'_>,
    name: &str,
    asked: &Amounts,
    before: Option<CountedPod<'_>>,
    tree: &dyn QuotaTree,
) -> Result<Vec<Level>, Stop> {
    let quota = evaluated(name, tree).map_err(|error| {
        let text = error.to_string();
        let label = Path::new("metadata").child("labels").key(names::QUOTA_NAME);
        let fields = [Error::invalid(&label, name.to_owned(), &text)]
            .into_iter()
            .collect();
        Stop::Denied(Denial::Worded { text, fields })
    })?;
    Ok(levels(quota, asked, before, tree, ctx.switches))
}

fn requests(ctx: &PodCtx<'_>, pod: &impl Fields) -> Result<Amounts, StepError> {
    let mut pod: Pod = part(pod, &[])?;
    if counting_by(ctx.gates).ignores_overhead {
        pod.spec.overhead = Amounts::default();
    }
    Ok(requested(pod, transformation(ctx)))
}

fn transformation(ctx: &PodCtx<'_>) -> Transformation {
    transformation_by(ctx.gates)
}

/// Renaming of resources under these gates.
pub(in crate::admission::endpoints) fn transformation_by(gates: &GateSet) -> Transformation {
    if TRANSFORMS.iter().all(|gate| gates.enabled(gate)) {
        Transformation::ByAnnotation
    } else {
        Transformation::None
    }
}

/// The resource version of the Pod that an update replaces.
fn replaced(draft: &Draft<'_>) -> Result<u64, StepError> {
    let old = draft.old();
    let version = old
        .map(|old| part::<String>(old, &["metadata", "resourceVersion"]))
        .transpose()?;
    Ok(version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default())
}

fn refusal(error: &QuotaCheckError) -> Denial {
    Denial::Worded {
        text: error.to_string(),
        fields: error.errors(),
    }
}
