//! Step `quota`: refuses Pods that their quota has no room for. It is the last step, and what it lets through counts from then on.

use std::time::Instant;

use headroom_domain::{
    amounts::Amounts,
    field::{Error, Path},
    names,
    pod::Pod,
    selector::Labels,
};
use headroom_kit::gate::Gate;
use headroom_rules::{
    pod_quota::{
        CHECKS_GROWTH, Membership, RoomError, Transformation, USED_BY_SUM, Usage, cost, growth, requested,
        room,
    },
    quota::{Quota, QuotaTree},
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
        room::{PodGroup, PodName, RoomRequest},
        sources,
    },
};

static GATE: Gate = Gate::alpha(
    "EnableQuotaAdmission",
    "Refuses pods that ask for more than their ElasticQuota has left.",
);

/// Stored pods that move to another quota are compared with it.
pub(super) static ON_UPDATE: Gate = Gate::alpha(
    "EnableQuotaAdmissionOnUpdate",
    "Compares a pod that moves to another ElasticQuota with that, where EnableQuotaAdmission is on.",
);

/// Resources are renamed by an annotation of the pod: needs both gates, as with Koordinator.
pub(super) static TRANSFORMS: [Gate; 2] = [
    Gate::alpha(
        "ElasticQuotaEvaluationTransformPod",
        "Renames resources of a pod by its annotation before it is compared with its ElasticQuota, where ReplaceResourcesTransformer is on as well.",
    ),
    Gate::alpha(
        "ReplaceResourcesTransformer",
        "Lets the annotation pod.koordinator.sh/replace-resources rename resources of a pod.",
    ),
];

pub(super) static STEP: PodStep = PodStep {
    name: "quota",
    when: When::On(&GATE),
    about: "Refuses pods, and growing requests of stored ones, that are more than their ElasticQuota has left.",
    reads: &[&sources::QUOTAS, &sources::QUOTA_PODS],
    // A pod that stays as large as it is can always be changed.
    unknown: UnknownSource::IsHandled,
    run: evaluate,
};

/// Quotas that limit nothing.
const UNLIMITED: [&str; 4] = ["", names::DEFAULT_QUOTA, names::SYSTEM_QUOTA, names::ROOT_QUOTA];

/// What a Pod wants of a quota.
struct Wish {
    quota: Quota,
    /// The groups of pods that the quota has.
    groups: Vec<PodGroup>,
    /// What it asks for, as far as the quota limits it and it is more than before.
    cost: Amounts,
}

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
    // Most updates ask for nothing more, whatever quotas there are.
    let grows = stored
        .as_ref()
        .is_none_or(|(_, before)| !growth(&asked, before).is_empty());
    let mut wish = Ok(None);
    ctx.store.quotas.tree.visit_tree(&mut |tree| {
        let membership = labels.membership(namespace);
        let name = membership.quota(tree);
        let before = stored
            .as_ref()
            .map(|(labels, asked)| (labels.membership(namespace).quota(tree), asked));
        let before = match before {
            // It stays where it is.
            Some((quota, asked)) if quota == name => {
                if !grows || !ctx.switches.is_on(&CHECKS_GROWTH) {
                    return;
                }
                Some(asked)
            }
            Some(_) if !ctx.gates.enabled(&ON_UPDATE) => return,
            Some(_) | None => None,
        };
        if !UNLIMITED.contains(&name.as_ref()) {
            wish = wish_of(&name, membership, &asked, before, tree).map(Some);
        }
    });
    let Some(Wish { quota, groups, cost }) = wish? else {
        return Ok(());
    };
    let request = RoomRequest {
        pod: PodName {
            namespace: namespace.into(),
            name: part::<String>(draft, &["metadata", "name"])?.into(),
        },
        uid: part::<String>(draft, &["metadata", "uid"])?.into(),
        group: PodGroup::new(labels.membership(namespace).label(), namespace),
        requested: asked,
        replaced: replaced(draft)?,
        groups,
        transformation: transformation(ctx),
    };
    ask_for_room(ctx, &quota, &cost, request)
}

/// Compares with what is used, and has the Pod count from now on.
fn ask_for_room(ctx: &PodCtx<'_>, quota: &Quota, cost: &Amounts, request: RoomRequest) -> Result<(), Stop> {
    let quotas = &ctx.store.quotas;
    for source in STEP.reads {
        if !quotas.known.is_known(source) {
            return Err(Stop::Failed(StepError::Unknown(source.name)));
        }
    }
    let noted = if ctx.switches.is_on(&USED_BY_SUM) {
        Box::default()
    } else {
        quotas.tree.noted_use(&quota.key())
    };
    let mut answer = None;
    let mut fits = |usage: &Usage| {
        let usage = Usage {
            noted: noted.clone(),
            ..usage.clone()
        };
        let result = room(quota, cost, &usage, ctx.switches);
        let fits = result.is_ok();
        answer = Some(result);
        fits
    };
    if ctx.request.is_dry_run {
        if let Some(usage) = quotas.room.usage(&request, Instant::now()) {
            fits(&usage);
        }
    } else if let Some(claim) = quotas.room.claim(request, Instant::now(), &mut fits) {
        ctx.claims.push(claim);
    }
    match answer {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(Stop::Denied(refusal(&error))),
        None => Err(Stop::Failed(StepError::Unknown(sources::QUOTA_PODS.name))),
    }
}

/// What the Pod wants of the quota of that name. `before` is what it has there.
fn wish_of(
    name: &str,
    membership: Membership<'_>,
    asked: &Amounts,
    before: Option<&Amounts>,
    tree: &dyn QuotaTree,
) -> Result<Wish, Stop> {
    let refuse = |text: String| {
        let label = Path::new("metadata").child("labels").key(names::QUOTA_NAME);
        let fields = [Error::invalid(&label, name.to_owned(), &text)]
            .into_iter()
            .collect();
        Stop::Denied(Denial::Worded { text, fields })
    };
    let quota = tree
        .by_name(name)
        .ok_or_else(|| refuse(format!("elastic quota {name} not found")))?;
    if tree.count_named(name) > 1 {
        return Err(refuse(format!("more than one elastic quota {name} found")));
    }
    let mut wanted = cost(asked, &quota);
    if let Some(before) = before {
        let more = growth(asked, before);
        let grown: Vec<&str> = more.iter().map(|(name, _)| name).collect();
        wanted = wanted.only(&grown);
    }
    Ok(Wish {
        groups: groups(&quota, membership.has_default, tree),
        cost: wanted,
        quota: Quota::clone(&quota),
    })
}

/// The groups of pods that belong to a quota: those with its name in a label, and those without label in its namespaces.
fn groups(quota: &Quota, has_default: bool, tree: &dyn QuotaTree) -> Vec<PodGroup> {
    let labels = Labels::new();
    let is_own = |namespace: &str| {
        let unlabelled = Membership {
            labels: &labels,
            namespace,
            has_default,
        };
        unlabelled.quota(tree) == *quota.name
    };
    let namespaces = quota
        .namespaces
        .iter()
        .filter(|namespace| **namespace != quota.name);
    let own = namespaces
        .chain([&quota.name])
        .filter(|namespace| is_own(namespace));
    let unlabelled = own.map(|namespace| PodGroup::Unlabelled(namespace.clone()));
    unlabelled
        .chain([PodGroup::Labelled(quota.name.clone())])
        .collect()
}

fn requests(ctx: &PodCtx<'_>, pod: &impl Fields) -> Result<Amounts, StepError> {
    Ok(requested(part::<Pod>(pod, &[])?, transformation(ctx)))
}

fn transformation(ctx: &PodCtx<'_>) -> Transformation {
    if TRANSFORMS.iter().all(|gate| ctx.gates.enabled(gate)) {
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

fn refusal(error: &RoomError) -> Denial {
    Denial::Worded {
        text: error.to_string(),
        fields: error.errors(),
    }
}
