//! Endpoint `/validate-pod-binding`: lets only listed users bind pods to nodes, in the namespaces that are listed.

use std::time::Duration;

use headroom_kit::gate::Gate;
use headroom_rules::binding::{self, Decision, PodMetadata};

use super::{
    pod_types::{PodCtx, PodEndpoint, PodStep},
    validate_pod,
};
use crate::{
    admission::{
        draft::Draft,
        endpoint::{
            Awaited, BrokenStep, Colocation, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy,
            Kind, Namespaces, Objects, RequestLimits, Rule, SideEffects, Stop, UnknownSource, When, Work,
        },
        metrics,
        refusal::{Denial, DenialStyle},
        review::{Operation, Request},
    },
    store::sources,
};

static GATE: Gate = Gate::alpha(
    "BindingAdmissionWebhook",
    "Lets only the users of --binding-admission-user-name bind pods.",
);

static STEP: PodStep = PodStep {
    name: "binding",
    when: When::On(&GATE),
    about: "Refuses bindings of pods by users that are not listed.",
    reads: &[&sources::PODS_BY_NAME],
    // An unknown pod is allowed: it may have a bypass.
    unknown: UnknownSource::IsHandled,
    run: check,
};

const fn creation(resource: &'static str, sub_resource: &'static str) -> Rule {
    Rule {
        operations: &[Operation::Create],
        group: "",
        version: "v1",
        resource,
        sub_resource,
    }
}

pub(super) static ENDPOINT: PodEndpoint = PodEndpoint {
    declaration: Declaration {
        path: "/validate-pod-binding",
        about: "Lets only listed users bind pods to nodes.",
        kind: Kind::Validating,
        configuration: ConfigurationObject::Pods,
        gate: Some(&validate_pod::GATE),
        modifiers: &[],
        entries: &[Entry {
            name: "vpodbinding.koordinator.sh",
            rules: &[creation("pods", "binding"), creation("bindings", "")],
            namespaces: Namespaces::All,
            objects: Objects::All,
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Ignore,
            timeout: Duration::from_secs(2),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::FORBIDDEN,
        denials: Denials::First,
        skips_deleting: false,
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    // A scheduler binds a pod as soon as its watch delivers it, which may be before this replica's watch does.
    awaits: Some(Awaited {
        is_missing: is_unknown,
        longest: Duration::from_millis(250),
    }),
    steps: &[&STEP],
};

fn is_unknown(request: &Request, _draft: &Draft<'_>, store: &Colocation) -> bool {
    !store.binding.users.is_empty() && store.pods.pod(&request.namespace, &request.name).is_none()
}

fn check(ctx: &PodCtx<'_>, _draft: &mut Draft<'_>) -> Result<(), Stop> {
    let request = ctx.request;
    let pod = ctx.store.pods.pod(&request.namespace, &request.name);
    let asked = binding::Request {
        operation: request.operation.name(),
        resource: &request.resource,
        subresource: &request.sub_resource,
        username: &request.user.name,
        namespace: &request.namespace,
        pod: pod.as_deref().map(|pod| PodMetadata {
            labels: &pod.labels,
            annotations: &pod.annotations,
        }),
    };
    let decision = binding::decide(&asked, &ctx.store.binding, ctx.switches);
    if let Some(word) = decision.metric() {
        metrics::BINDINGS.with([word]).increment(1);
    }
    if decision.is_allowed() {
        Ok(())
    } else {
        Err(Stop::Denied(Denial::Text(Decision::DENIAL.to_owned())))
    }
}
