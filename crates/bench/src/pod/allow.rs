//! An endpoint that allows immediately: the base cost of every review.

use std::time::Duration;

use headroom_webhook::admission::{
    endpoint::{
        BrokenStep, Colocation, ConfigurationObject, Declaration, Denials, Endpoint, Entry, FailurePolicy,
        Kind, Namespaces, Objects, RequestLimits, Rule, SideEffects, When, Work,
    },
    refusal::DenialStyle,
    review::Operation,
};

pub(super) const PATH: &str = "/allow";

pub(super) static ENDPOINT: Endpoint<Colocation> = Endpoint {
    declaration: Declaration {
        path: PATH,
        about: "Allows every review immediately.",
        kind: Kind::Validating,
        configuration: ConfigurationObject::Pods,
        gate: None,
        modifiers: &[],
        entries: &[Entry {
            name: "allow.headroom.sh",
            when: When::Always,
            rules: &[Rule {
                operations: &[Operation::Create],
                group: "",
                version: "v1",
                resource: "pods",
                sub_resource: "",
            }],
            namespaces: Namespaces::All,
            objects: Objects::All,
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(5),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::KOORDINATOR,
        denials: Denials::First,
        passes: &[],
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    awaits: None,
    steps: &[],
};
