//! Endpoint `/validate-node`: refuses Node writes with bad ratio or mode annotations, with annotations that the writer
//! may not change, or with conflicting labels. Labels conflict if several entries of one key in Koordinator's ConfigMap
//! select the Node.
//!
//! It is declared for `nodes` and never for `nodes/status`: validation there sees the webhook's own mutation under the
//! kubelet's name, and a refusal would be a refused heartbeat. A value that is already stored is not checked again, so
//! a node with a bad one can still be labelled, cordoned and deleted.

mod conflict;
mod mode;
mod ratio;
mod writer;

use std::time::Duration;

use headroom_kit::gate::Gate;

use super::node_fields::{self, NodeEndpoint, NodeStep};
use crate::admission::{
    draft::Draft,
    endpoint::{
        BrokenStep, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy, Kind, Namespaces,
        Objects, RequestLimits, Rule, SideEffects, When, Work,
    },
    refusal::DenialStyle,
    review::Operation,
};

static GATE: Gate = Gate::beta(
    "NodeValidatingWebhook",
    "Checks the ratio and mode annotations of nodes, and their labels for conflicts.",
);

static STEPS: &[&NodeStep] = &[&writer::STEP, &ratio::STEP, &mode::STEP, &conflict::STEP];

pub(super) static ENDPOINT: NodeEndpoint = NodeEndpoint {
    declaration: Declaration {
        path: "/validate-node",
        about: "Checks the annotations that control amplification, and labels that select policies.",
        kind: Kind::Validating,
        configuration: ConfigurationObject::Nodes,
        gate: None,
        modifiers: &[],
        entries: &[Entry {
            name: "vnode.koordinator.sh",
            when: When::Always,
            rules: &[Rule {
                operations: &[Operation::Create, Operation::Update],
                group: "",
                version: "v1",
                resource: "nodes",
                sub_resource: "",
            }],
            namespaces: Namespaces::ClusterScoped,
            objects: Objects::All,
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Ignore,
            timeout: Duration::from_secs(1),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::FORBIDDEN,
        denials: Denials::First,
        passes: &[],
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    awaits: None,
    steps: STEPS,
};

/// The annotation's new value, if the request sets or changes it.
fn written(draft: &Draft<'_>, key: &str) -> Option<String> {
    let stored = draft.old().and_then(|old| node_fields::annotation(old, key));
    let value = node_fields::annotation(draft, key).filter(|value| stored.as_ref() != Some(value))?;
    Some(value.into_owned())
}
