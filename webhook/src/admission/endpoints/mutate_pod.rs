//! Endpoint `/mutate-pod`: applies colocation profiles, and completes the resources of a Pod, so that scheduler and
//! node agent read one form.
//!
//! It is never called twice in one request: the API server's LimitRanger runs again after a webhook has changed a
//! Pod, and its added defaults are not the user's requests.

mod affinity;
mod device;
mod extended;
mod profile;

use std::time::Duration;

use headroom_domain::names;
use headroom_kit::gate::Gate;

use super::{
    pod_membership,
    pod_types::{PodEndpoint, PodStep},
};
use crate::admission::{
    endpoint::{
        Awaited, BrokenStep, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy, Kind,
        Namespaces, Objects, Pass, Reinvocation, RequestLimits, Rule, SideEffects, When, Work,
    },
    refusal::DenialStyle,
    review::Operation,
};

static GATE: Gate = Gate::beta("PodMutatingWebhook", "Completes the resources of pods.");

static STEPS: &[&PodStep] = &[&profile::STEP, &extended::STEP, &affinity::STEP, &device::STEP];

/// Timeout in the API server: long enough for a busy replica, shorter than the client's own timeout.
const TIMEOUT: Duration = Duration::from_secs(5);

const fn pods(operations: &'static [Operation]) -> Rule {
    Rule {
        operations,
        group: "",
        version: "v1",
        resource: "pods",
        sub_resource: "",
    }
}

pub(super) static ENDPOINT: PodEndpoint = PodEndpoint {
    declaration: Declaration {
        path: "/mutate-pod",
        about: "Applies colocation profiles to new pods, and completes their batch and device resources.",
        kind: Kind::Mutating(Reinvocation::Never),
        configuration: ConfigurationObject::Pods,
        gate: Some(&GATE),
        modifiers: &[&profile::SKIPPED, &pod_membership::NO_DEFAULT],
        entries: &[
            Entry {
                name: "mpod-create.koordinator.sh",
                when: When::Always,
                rules: &[pods(&[Operation::Create])],
                namespaces: Namespaces::ExceptSystem,
                objects: Objects::All,
                conditions: &[],
                side_effects: SideEffects::None,
                failure_policy: FailurePolicy::Fail,
                timeout: TIMEOUT,
            },
            Entry {
                name: "mpod-update.koordinator.sh",
                when: When::Always,
                rules: &[pods(&[Operation::Update])],
                namespaces: Namespaces::ExceptSystem,
                objects: Objects::Labelled {
                    key: names::MUTATING_UPDATE,
                    value: "true",
                },
                conditions: &[],
                side_effects: SideEffects::None,
                failure_policy: FailurePolicy::Fail,
                timeout: TIMEOUT,
            },
        ],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::KOORDINATOR,
        denials: Denials::First,
        passes: &[Pass::Finalizers, Pass::MirrorPods],
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    // A class and a pod of it, or a namespace and a pod in it, often come in one file.
    awaits: Some(Awaited {
        is_missing: profile::is_unknown,
        longest: Duration::from_millis(250),
    }),
    steps: STEPS,
};
