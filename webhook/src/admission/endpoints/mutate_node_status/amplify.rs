//! Step `amplify`: sets a Node's allocatable to the decision of [`capacity::decide`].

use headroom_domain::{
    capacity::{self, Annotations, Basis, Decision, NodeState, ResourceDecision, Why, Write, Writer},
    hint::{EffectiveHint, HintQuery, Origin},
    names,
    policy::{Mode, Policy},
    resource::Resource,
};

use super::conditions::{self, ConditionInputs};
use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        endpoints::node_fields::{self, NodeCtx, NodeStep},
        error::StepError,
        metrics,
        review::Operation,
    },
    store::sources,
};

pub(super) static STEP: NodeStep = NodeStep {
    name: "amplify",
    when: When::On(&super::GATE),
    about: "Sets allocatable to raw times the ratio that mode, annotation and hint allow.",
    reads: &[&sources::NODES, &sources::PODS],
    unknown: UnknownSource::IsHandled,
    run: amplify,
};

fn amplify(ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Some(decided) = decided(ctx, draft) else {
        return Ok(());
    };
    let NodeDecision {
        decision,
        hint,
        old,
        new,
        ..
    } = &decided;
    let Some((policy, mode_fault)) = &decided.policy else {
        apply(decision, draft)?;
        return Ok(conditions::keep(draft)?);
    };
    if let Some(fault) = mode_fault {
        let field = node_fields::annotation_field(names::MODE);
        draft.warn(format!("{field}: {fault}; {} applies", policy.mode));
    }
    warn_of_ratio(decision, draft);
    apply(decision, draft)?;
    if has_conditions(hint.as_ref(), &old.annotations) {
        let grounds = ConditionInputs {
            decision,
            mode: policy.mode,
            hint: hint.as_ref(),
            is_contested: ctx.store.is_contested(&ctx.request.name),
            heartbeat: new.ready_heartbeat.as_deref(),
            now: ctx.now,
        };
        conditions::write(draft, &grounds)?;
    } else if matches!(policy.mode, Mode::Guard | Mode::Auto) {
        conditions::keep(draft)?;
    }
    Ok(())
}

/// Decision about an update of a Node, with its inputs.
pub(in crate::admission::endpoints) struct NodeDecision {
    pub(in crate::admission::endpoints) decision: Decision,
    /// Policy in force, and the fault of the mode annotation; `None` while the policy is not known.
    pub(in crate::admission::endpoints) policy: Option<(Policy, Option<String>)>,
    hint: Option<EffectiveHint>,
    /// State of the stored Node.
    pub(in crate::admission::endpoints) old: NodeState,
    new: NodeState,
}

/// Decides the update of the request; `None` for other operations.
pub(in crate::admission::endpoints) fn decided(ctx: &NodeCtx<'_>, draft: &Draft<'_>) -> Option<NodeDecision> {
    let old = draft
        .old()
        .filter(|_| ctx.request.operation == Operation::Update)?;
    let name = ctx.request.name.as_str();
    let (version, is_told) = (node_fields::version(old), node_fields::tells_allocated(old));
    // The Node from the watch is parsed already, and mostly the base of this write.
    let (stored, none) = (ctx.store.stored(name), Annotations::default());
    let known = stored.as_ref().map_or(&none, |stored| &stored.state.annotations);
    let (old, new) = node_fields::states(old, draft, known);
    let uid = node_fields::uid(draft);
    let kubelet = ctx.request.user.kubelet();
    let writer = if kubelet.is_some_and(|kubelet| kubelet.is_of(name)) {
        Writer::Kubelet
    } else {
        Writer::Other
    };
    let write = Write {
        uid: &uid,
        writer,
        old: &old,
        new: &new,
    };
    let policy = node_fields::policy(ctx, draft);
    let Some((in_force, _)) = &policy else {
        return Some(NodeDecision {
            decision: capacity::keep(&write),
            policy: None,
            hint: None,
            old,
            new,
        });
    };
    let nudged = new.annotations.hint.as_ref();
    let hint = ctx.store.hint(&HintQuery {
        node: name,
        uid: &uid,
        version,
        stored: old.annotations.hint.as_ref(),
        written: capacity::written_ratios(&old.annotations, &uid),
        nudged: nudged.filter(|_| ctx.request.user.name == ctx.store.webhook_user()),
        machine: node_fields::machine(draft, &new),
    });
    let basis = Basis {
        policy: in_force,
        hint: hint.as_ref(),
        pod_demand: ctx.store.pod_demand(name, old.amounts(), is_told),
    };
    Some(NodeDecision {
        decision: capacity::decide(&write, &basis),
        policy,
        hint,
        old,
        new,
    })
}

/// False if no hint was or is applied, so that no conditions must be read; and if one is unreadable, which its writer
/// has reported.
fn has_conditions(hint: Option<&EffectiveHint>, stored: &Annotations) -> bool {
    hint.map_or(stored.hint.is_some(), |found| found.origin != Origin::Marker)
}

/// Warns the client that the ratio annotation is unusable.
fn warn_of_ratio(decision: &Decision, draft: &mut Draft<'_>) {
    let is_bad = |resource| decision.outcomes.get(resource).why.contains(&Why::BadAnnotation);
    if Resource::ALL.into_iter().any(is_bad) {
        let field = node_fields::annotation_field(names::RATIO);
        draft.warn(format!("{field}: unusable, counts as 1.00"));
    }
}

fn apply(decision: &Decision, draft: &mut Draft<'_>) -> Result<(), StepError> {
    let Decision {
        allocatable,
        annotations,
        outcomes,
    } = decision;
    let before = draft.changes();
    for resource in Resource::ALL {
        for why in &outcomes.get(resource).why {
            metrics::DECISION_REASONS
                .with([resource.name(), why.code()])
                .increment(1);
        }
        if let Some(quantity) = allocatable.get(resource) {
            draft.set(&["status", "allocatable", resource.name()], quantity.to_string())?;
        }
    }
    for (key, value) in annotations {
        let path = node_fields::annotation_path(key);
        match value {
            Some(text) => draft.set(&path, text.as_str())?,
            None => draft.remove(&path),
        }
    }
    if draft.changes() > before {
        draft.audit("allocatable", summary(decision));
    }
    Ok(())
}

/// The decision in one line, for the audit log, as in `cpu 4000 -> 6000 (hint); memory 1024 -> 1024 (hint)`.
fn summary(decision: &Decision) -> String {
    let shown = |amount: Option<u64>| amount.map_or_else(|| "?".to_owned(), |amount| amount.to_string());
    let parts = Resource::ALL.map(|resource| {
        let ResourceDecision { raw, result, why, .. } = decision.outcomes.get(resource);
        let why: Vec<&str> = why.iter().map(|why| why.code()).collect();
        format!(
            "{resource} {} -> {} ({})",
            shown(*raw),
            shown(*result),
            why.join(", ")
        )
    });
    parts.join("; ")
}
