//! Endpoint `/mutate-node-status`: the only place that sets a Node's `status.allocatable`.
//!
//! A status write is a node's heartbeat, and the webhook never causes its refusal. The capacity rules decide doubtful
//! input: they keep raw or last-good values. A step that breaks is passed over: the writes of the other steps still go
//! out, the answer is "allowed", and the request counts and is logged as failed. Only requests that never reach a step
//! (no review, too many at once, deadline passed) fail as calls, for `failurePolicy` to ignore.

mod amplify;
mod answer_probe;
mod conditions;
mod quiet;
mod restore;

use std::time::Duration;

use headroom_kit::gate::Gate;

pub(super) use self::amplify::decided;
pub use self::answer_probe::{PROBE_ANSWER, PROBE_ANSWER_VERIFIED};
use crate::admission::{
    endpoint::{
        BrokenStep, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy, Kind, Namespaces,
        Objects, Reinvocation, RequestLimits, Rule, SideEffects, When, Work,
    },
    endpoints::node_fields::{NodeEndpoint, NodeStep},
    refusal::DenialStyle,
    review::Operation,
};

pub(super) static GATE: Gate = Gate::beta(
    "NodeMutatingWebhook",
    "Sets the allocatable resources of nodes from ratio and hint.",
);

/// The name of its entry.
pub(super) const ENTRY: &str = "mnode-status.koordinator.sh";

static STEPS: &[&NodeStep] = &[&restore::STEP, &amplify::STEP, &quiet::STEP, &answer_probe::STEP];

pub(super) static ENDPOINT: NodeEndpoint = NodeEndpoint {
    declaration: Declaration {
        path: "/mutate-node-status",
        about: "Amplifies a node's allocatable resources within bounds.",
        // In a second call it would have to distinguish its own values from the kubelet's; it can, without a benefit.
        kind: Kind::Mutating(Reinvocation::Never),
        configuration: ConfigurationObject::Nodes,
        gate: None,
        modifiers: &[],
        entries: &[Entry {
            name: ENTRY,
            when: When::Always,
            rules: &[Rule {
                operations: &[Operation::Create, Operation::Update],
                group: "",
                version: "v1",
                resource: "nodes",
                sub_resource: "status",
            }],
            namespaces: Namespaces::ClusterScoped,
            objects: Objects::All,
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Ignore,
            timeout: Duration::from_secs(1),
        }],
        broken_step: BrokenStep::IsSkipped,
        denial_style: DenialStyle::FORBIDDEN,
        denials: Denials::First,
        passes: &[],
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    awaits: None,
    steps: STEPS,
};
