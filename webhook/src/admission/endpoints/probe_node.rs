//! Endpoint `/probe-node`: answers a dry run of `nodes` with the webhook's decision about the next status write.
//!
//! `kubectl headroom off` switches a node off through `nodes`, where the API server takes no status. A dry run that
//! contains the annotation [`names::KUBELET_RAW`] with the value [`QUESTION`] is the question. The answer replaces the
//! value, so a value that remains means that no webhook answered. A dry run stores nothing.

use std::time::Duration;

use headroom_domain::{
    capacity::{ProbeAnswer, QUESTION},
    names,
};

use super::{
    mutate_node_status,
    node_fields::{self, NodeCtx, NodeEndpoint, NodeStep},
};
use crate::{
    admission::{
        draft::Draft,
        endpoint::{
            BrokenStep, Condition, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy, Kind,
            Namespaces, Objects, Reinvocation, RequestLimits, Rule, SideEffects, Stop, UnknownSource, When,
            Work,
        },
        error::StepError,
        refusal::DenialStyle,
        review::Operation,
    },
    store::sources,
};

static STEP: NodeStep = NodeStep {
    name: "probe",
    when: When::On(&mutate_node_status::GATE),
    about: "Replaces the annotation headroom.sh/kubelet-raw of a dry run by the mode in force and the allocatable \
     that the next status write stores.",
    reads: &[&sources::NODES, &sources::PODS],
    unknown: UnknownSource::IsHandled,
    run: answer,
};

/// Only dry runs with the question are sent.
const IS_PROBE: Condition = Condition {
    name: "is-probe",
    expression: "has(request.dryRun) && request.dryRun \
        && object.metadata.?annotations[?'headroom.sh/kubelet-raw'].orValue('') == '{}'",
};

pub(super) static ENDPOINT: NodeEndpoint = NodeEndpoint {
    declaration: Declaration {
        path: "/probe-node",
        about: "Predicts the allocatable of a node for `kubectl headroom off`.",
        kind: Kind::Mutating(Reinvocation::Never),
        configuration: ConfigurationObject::Nodes,
        gate: None,
        modifiers: &[],
        entries: &[Entry {
            name: "probe.nodes.headroom.sh",
            when: When::Always,
            rules: &[Rule {
                operations: &[Operation::Update],
                group: "",
                version: "v1",
                resource: "nodes",
                sub_resource: "",
            }],
            namespaces: Namespaces::ClusterScoped,
            objects: Objects::All,
            conditions: &[IS_PROBE],
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
    steps: &[&STEP],
};

/// API servers before 1.28 do not evaluate conditions and send every update.
fn answer(ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let question = node_fields::annotation(draft, names::KUBELET_RAW);
    if !ctx.request.is_dry_run || question.as_deref() != Some(QUESTION) {
        return Ok(());
    }
    let Some(decided) = mutate_node_status::decided(ctx, draft) else {
        return Ok(());
    };
    let mode = decided.policy.as_ref().map(|(policy, _)| policy.mode);
    let answer = ProbeAnswer::new(&decided.decision, &decided.old, mode);
    draft
        .set(
            &node_fields::annotation_path(names::KUBELET_RAW),
            answer.to_string(),
        )
        .map_err(StepError::from)?;
    Ok(())
}
