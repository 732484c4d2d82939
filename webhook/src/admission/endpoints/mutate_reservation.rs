//! Endpoint `/mutate-reservation`: applies colocation profiles to new Reservations, as to the pods that they stand for.
//!
//! It is for new ones alone: a suffix would grow with each update. Cpu and memory of the template stay as they are.

mod profile;
mod spec;

use std::time::Duration;

use headroom_kit::gate::Gate;

use super::pod_types::{PodEndpoint, PodStep};
use crate::admission::{
    endpoint::{
        Awaited, BrokenStep, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy, Kind,
        Namespaces, Objects, Pass, Reinvocation, RequestLimits, Rule, SideEffects, When, Work,
    },
    refusal::DenialStyle,
    review::Operation,
};

static GATE: Gate = Gate::alpha(
    "ReservationMutatingWebhook",
    "Applies colocation profiles to new Reservations.",
);

static STEPS: &[&PodStep] = &[&spec::STEP, &profile::STEP];

pub(super) static ENDPOINT: PodEndpoint = PodEndpoint {
    declaration: Declaration {
        path: "/mutate-reservation",
        about: "Applies colocation profiles to new Reservations, and refuses unreadable ones.",
        kind: Kind::Mutating(Reinvocation::Never),
        configuration: ConfigurationObject::Pods,
        gate: Some(&GATE),
        modifiers: &[],
        entries: &[Entry {
            name: "mreservation-create.koordinator.sh",
            when: When::Always,
            rules: &[Rule {
                operations: &[Operation::Create],
                group: "scheduling.koordinator.sh",
                version: "v1alpha1",
                resource: "reservations",
                sub_resource: "",
            }],
            // Reservations are in none.
            namespaces: Namespaces::ClusterScoped,
            objects: Objects::All,
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(5),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::KOORDINATOR,
        denials: Denials::First,
        passes: &[Pass::Finalizers],
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    // A class and a Reservation of it often come in one file.
    awaits: Some(Awaited {
        is_missing: profile::is_unknown,
        longest: Duration::from_millis(250),
    }),
    steps: STEPS,
};
