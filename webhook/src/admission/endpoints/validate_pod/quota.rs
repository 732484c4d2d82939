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
};

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
        quota_request::{PodGroup, PodName, QuotaRequest},
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

pub(in crate::admission::endpoints) static STEP: PodStep = PodStep {
    name: "quota",
    when: When::On(&GATE),
    about: "Refuses pods, and growing requests of stored pods, that exceed the unused part of their \
     ElasticQuota.",
    reads: &[&sources::QUOTAS, &sources::QUOTA_PODS],
    // A pod that stays as large as it is can always be changed.
    unknown: UnknownSource::IsHandled,
    run: evaluate,
};

/// True while a new Pod names a quota that is not known, and quotas are evaluated.
pub(super) fn is_awaiting(request: &Request, draft: &Draft<'_>, store: &Colocation) -> bool {
    let quotas = &store.quotas;
    if request.operation != Operation::Create || !quotas.known.is_known(&sources::QUOTA_PODS) {
        return false;
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

fn evaluate(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let operation = ctx.request.operation;
    if !is_checked(ctx) || !matches!(operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    let namespace = ctx.request.namespace.as_str();
    let labels = PodLabels::read(ctx, draft)?;
    let stored = match draft.old().filter(|_| operation == Operation::Update) {
        Some(old) => Some((PodLabels::read(ctx, old)?, requests(ctx, old)?)),
        None => None,
    };
    let asked = requests(ctx, draft)?;
    // Most updates request no more, under any quotas.
    let grows = stored
        .as_ref()
        .is_none_or(|(_, before)| !growth(&asked, before).is_empty());
    let mut levels = Ok(None);
    ctx.store.quotas.tree.visit_tree(&mut |tree| {
        let membership = labels.membership(namespace);
        let name = membership.quota(tree);
        let before = stored
            .as_ref()
            .map(|(labels, asked)| (labels.membership(namespace).quota(tree), asked));
        let is_compared = match &before {
            // It stays where it is.
            Some((quota, _)) if *quota == name => grows && ctx.switches.is_on(&CHECKS_GROWTH),
            Some(_) => ctx.gates.enabled(&ON_UPDATE),
            None => true,
        };
        if is_compared && is_limited(&name) {
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
    };
    ask_for_room(ctx, &levels, request)
}

/// Compares with the current use, and counts the Pod from now on.
fn ask_for_room(ctx: &PodCtx<'_>, levels: &QuotaLevels, request: QuotaRequest) -> Result<(), Stop> {
    let quotas = &ctx.store.quotas;
    for source in STEP.reads {
        if !quotas.known.is_known(source) {
            return Err(Stop::Failed(StepError::Unknown(source.name)));
        }
    }
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
    Ok(requested(part::<Pod>(pod, &[])?, transformation(ctx)))
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
