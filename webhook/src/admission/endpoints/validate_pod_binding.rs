//! Endpoint `/validate-pod-binding`: lets only listed users bind pods to nodes, in the namespaces that are listed, and
//! refuses Bindings that change labels and annotations of Koordinator or Headroom. The API server copies those of a
//! Binding to its pod, without the checks of an update.

use std::time::Duration;

use headroom_kit::gate::Gate;
use headroom_rules::{
    binding::{self, CHECKS_METADATA, Decision, PodMetadata},
    switch::Switches,
};

use super::{
    pod_types::{PodCtx, PodEndpoint, PodStep},
    validate_pod::{self, part, refuse},
};
use crate::{
    admission::{
        draft::{Draft, Fields as _},
        endpoint::{
            Awaited, BrokenStep, Colocation, Condition, ConfigurationObject, Declaration, Denials, Entry,
            FailurePolicy, Kind, Namespaces, Objects, RequestLimits, Rule, SideEffects, Stop, UnknownSource,
            When, Work,
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

static METADATA_STEP: PodStep = PodStep {
    name: "binding-metadata",
    when: When::Always,
    about: "Refuses bindings whose labels or annotations of Koordinator or Headroom differ from the pod's.",
    reads: &[&sources::PODS_BY_NAME],
    // Values of an unknown pod count as different.
    unknown: UnknownSource::IsHandled,
    run: check_metadata,
};

/// True wherever [`binding::is_guarded`] is true for a key, and for more keys than the API server can evaluate.
const HAS_GUARDED_KEYS: Condition = Condition {
    name: "has-guarded-keys",
    expression: "[object.metadata.?labels.orValue({}), object.metadata.?annotations.orValue({})].exists(keys, \
        size(keys) > 5000 || keys.exists(key, key.startsWith('headroom.sh/') || key.contains('koordinator.sh/')))",
};

const RULES: &[Rule] = &[creation("pods", "binding"), creation("bindings", "")];

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
        about: "Lets only listed users bind pods to nodes, and no Binding change labels and annotations of Koordinator \
         or Headroom.",
        kind: Kind::Validating,
        configuration: ConfigurationObject::Pods,
        gate: Some(&validate_pod::GATE),
        modifiers: &[],
        entries: &[
            Entry {
                name: "vpodbinding.koordinator.sh",
                when: When::On(&GATE),
                rules: RULES,
                namespaces: Namespaces::All,
                objects: Objects::All,
                conditions: &[],
                side_effects: SideEffects::None,
                failure_policy: FailurePolicy::Ignore,
                timeout: Duration::from_secs(2),
            },
            // A Binding of a scheduler has no labels and annotations and is not sent here.
            Entry {
                name: "metadata.vpodbinding.koordinator.sh",
                when: When::Always,
                rules: RULES,
                namespaces: Namespaces::ExceptSystem,
                objects: Objects::All,
                conditions: &[HAS_GUARDED_KEYS],
                side_effects: SideEffects::None,
                failure_policy: FailurePolicy::Fail,
                timeout: Duration::from_secs(2),
            },
        ],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::FORBIDDEN,
        denials: Denials::First,
        passes: &[],
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    // A scheduler binds a pod as soon as its watch delivers it, which may be before this replica's watch does.
    awaits: Some(Awaited {
        is_missing: is_unknown,
        longest: Duration::from_millis(250),
    }),
    steps: &[&STEP, &METADATA_STEP],
};

/// True while the decision depends on a pod that is not known.
fn is_unknown(request: &Request, draft: &Draft<'_>, store: &Colocation, switches: &Switches) -> bool {
    let has_guarded = |list| {
        let names = draft.names(&["metadata", list]);
        names.into_iter().any(binding::is_guarded)
    };
    let is_compared =
        || switches.is_on(&CHECKS_METADATA) && (has_guarded("labels") || has_guarded("annotations"));
    store.pods.pod(&request.namespace, &request.name).is_none()
        && (decide(request, None, store, switches) == Decision::UnknownPod || is_compared())
}

fn decide(
    request: &Request,
    pod: Option<PodMetadata<'_>>,
    store: &Colocation,
    switches: &Switches,
) -> Decision {
    let asked = binding::Request {
        operation: request.operation.name(),
        resource: &request.resource,
        subresource: &request.sub_resource,
        username: &request.user.name,
        namespace: &request.namespace,
        pod,
    };
    binding::decide(&asked, &store.binding, switches)
}

fn check(ctx: &PodCtx<'_>, _draft: &mut Draft<'_>) -> Result<(), Stop> {
    let request = ctx.request;
    let pod = ctx.store.pods.pod(&request.namespace, &request.name);
    let pod = pod.as_deref().map(|pod| PodMetadata {
        labels: &pod.labels,
        annotations: &pod.annotations,
    });
    let decision = decide(request, pod, ctx.store, ctx.switches);
    if let Some(word) = decision.metric() {
        metrics::BINDINGS.with([word]).increment(1);
    }
    if decision.is_allowed() {
        Ok(())
    } else {
        Err(Stop::Denied(Denial::Text(Decision::DENIAL.to_owned())))
    }
}

fn check_metadata(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if !ctx.switches.is_on(&CHECKS_METADATA) {
        return Ok(());
    }
    let pod = ctx.store.pods.pod(&ctx.request.namespace, &ctx.request.name);
    let pod = pod.as_deref().map(|pod| PodMetadata {
        labels: &pod.labels,
        annotations: &pod.annotations,
    });
    let (labels, annotations) = (
        part(draft, &["metadata", "labels"])?,
        part(draft, &["metadata", "annotations"])?,
    );
    let binding = PodMetadata {
        labels: &labels,
        annotations: &annotations,
    };
    refuse(draft, binding::changed_metadata(binding, pod))
}
