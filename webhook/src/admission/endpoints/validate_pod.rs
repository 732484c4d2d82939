//! Endpoint `/validate-pod`: refuses Pods that break Koordinator's rules, with all faults in one answer.
//!
//! A resize is an update of the requests of a running Pod, so it is checked as one. Other subresources change no
//! field that a rule reads: ephemeral containers have no resources.

mod agent_annotations;
mod colocation;
mod device;
mod enhanced;
mod mixed;
pub(super) mod parent;
pub(super) mod quota;
mod reserved;

use std::time::Duration;

use headroom_domain::field::Errors;
use headroom_kit::gate::Gate;
use headroom_rules::pod_check::{ALL_STEPS, RESIZES};
use serde::de::DeserializeOwned;

use super::{
    pod_membership,
    pod_types::{PodCtx, PodEndpoint, PodStep},
};
use crate::admission::{
    draft::{Draft, Fields},
    endpoint::{
        Awaited, BrokenStep, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy, Kind,
        Namespaces, Objects, Pass, RequestLimits, Rule, SideEffects, Stop, When, Work,
    },
    error::StepError,
    refusal::{Denial, DenialStyle},
    review::Operation,
};

/// Switches the checks of pods and of their bindings.
pub(super) static GATE: Gate = Gate::beta("PodValidatingWebhook", "Checks pods and their bindings.");

/// The quota step is last: it counts the pods that every other step allows.
static STEPS: &[&PodStep] = &[
    &reserved::STEP,
    &agent_annotations::STEP,
    &mixed::STEP,
    &colocation::STEP,
    &parent::STEP,
    &device::STEP,
    &enhanced::STEP,
    &quota::STEP,
];

/// The most errors of one step in an answer. A Pod has as many containers as its client likes.
pub(super) const MOST_ERRORS: usize = 32;

const fn pods(operations: &'static [Operation], sub_resource: &'static str) -> Rule {
    Rule {
        operations,
        group: "",
        version: "v1",
        resource: "pods",
        sub_resource,
    }
}

pub(super) static ENDPOINT: PodEndpoint = PodEndpoint {
    declaration: Declaration {
        path: "/validate-pod",
        about: "Refuses pods whose QoS class, priority, devices or labels break a rule, and pods that exceed \
         their quota.",
        kind: Kind::Validating,
        configuration: ConfigurationObject::Pods,
        gate: Some(&GATE),
        modifiers: &[
            &colocation::SUB_PRIORITY_MAY_CHANGE,
            &pod_membership::NO_DEFAULT,
            &parent::PARENTS_TAKE_PODS,
            &quota::ON_UPDATE,
            &quota::TRANSFORMS[0],
            &quota::TRANSFORMS[1],
            &quota::COUNTING[0],
            &quota::COUNTING[1],
            &quota::COUNTING[2],
        ],
        entries: &[Entry {
            name: "vpod.koordinator.sh",
            when: When::Always,
            rules: &[
                pods(&[Operation::Create, Operation::Update], ""),
                pods(&[Operation::Update], "resize"),
            ],
            namespaces: Namespaces::ExceptSystem,
            objects: Objects::All,
            conditions: &[],
            // An admission counts for a while; a dry run leaves nothing.
            side_effects: SideEffects::NoneOnDryRun,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(5),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::KOORDINATOR,
        denials: Denials::AllIf(&ALL_STEPS),
        passes: &[Pass::Finalizers, Pass::MirrorPods],
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    // A quota and its pods often come in one file, and a controller's pods in one batch.
    awaits: Some(Awaited {
        is_missing: quota::is_awaiting,
        longest: Duration::from_millis(250),
    }),
    steps: STEPS,
};

/// True if the request is one that the rules are for.
fn is_checked(ctx: &PodCtx<'_>) -> bool {
    ctx.request.sub_resource.is_empty() || ctx.switches.is_on(&RESIZES)
}

/// A part of the Pod, or of the stored one; empty if it is absent.
pub(super) fn part<T: DeserializeOwned + Default>(pod: &impl Fields, path: &[&str]) -> Result<T, StepError> {
    let part = pod.read(path).map_err(|source| StepError::Read {
        field: path.join("."),
        source,
    })?;
    Ok(part.unwrap_or_default())
}

/// Refuses with the errors if there are any; a warning contains the number of omitted ones.
pub(super) fn refuse(draft: &mut Draft<'_>, errors: Errors) -> Result<(), Stop> {
    let rest = errors.len().saturating_sub(MOST_ERRORS);
    if rest > 0 {
        draft.warn(format!("{rest} more errors are not shown"));
    }
    let told: Errors = errors.into_iter().take(MOST_ERRORS).collect();
    told.into_result()
        .map_err(|errors| Stop::Denied(Denial::Fields(errors)))
}
