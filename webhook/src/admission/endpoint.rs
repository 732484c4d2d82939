//! Types that declare admission endpoints as static data, and the context that a step reads.
//!
//! An [`Endpoint`] is one webhook entry, a [`Step`] one behaviour inside it. Webhook configurations, RBAC rules,
//! gates, metric labels and documentation follow from the declarations.

mod deadline;
mod run;

use std::{sync::Arc, time::Duration};

use headroom_domain::{
    capacity::PodDemand,
    hint::{EffectiveHint, HintQuery},
    policy::Policy,
    resource::PerResource,
};
use headroom_kit::gate::{Gate, GateSet};

pub use self::{deadline::Deadline, run::Admitted};
use crate::{
    admission::{
        draft::Draft,
        error::{Denial, StepError},
        review::{Operation, Request},
    },
    store::{
        node::{Labels, Node},
        policies::koordinator_entries::Strategies,
    },
};

/// One webhook entry.
#[derive(Debug)]
pub struct Endpoint {
    /// Name of the entry in the webhook configuration; clients see it in messages.
    pub name: &'static str,
    /// URL path.
    pub path: &'static str,
    /// What it is for, in one sentence.
    pub about: &'static str,
    /// Whether it may change objects.
    pub kind: Kind,
    /// What it is called for. Anything else that reaches it is allowed unchanged.
    pub rules: &'static [Rule],
    /// What the API server does when a call fails.
    pub failure_policy: FailurePolicy,
    /// How long the API server waits, in whole seconds, at most 10.
    pub timeout: Duration,
    /// Whose objects it is called for.
    pub namespaces: Namespaces,
    /// What a step that cannot do its work means for the answer.
    pub broken_step: BrokenStep,
    /// The behaviours, in the order in which they run.
    pub steps: &'static [&'static Step],
}

/// Whether an endpoint may change objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It may, and is called once or again after later changes.
    Mutating(Reinvocation),
    /// It only says yes or no.
    Validating,
}

/// Whether a mutating entry is called again when a later one changed the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reinvocation {
    /// Once per request.
    Never,
    /// Again after others' changes.
    IfNeeded,
}

/// Requests that an endpoint is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// What is done.
    pub operations: &'static [Operation],
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Resource in plural.
    pub resource: &'static str,
    /// Subresource, empty for the resource itself.
    pub sub_resource: &'static str,
}

/// What the API server does when a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is refused.
    Fail,
    /// The request goes on as if the endpoint were not there.
    Ignore,
}

/// Whose objects an endpoint is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespaces {
    /// Everybody's.
    All,
    /// Everybody's but our own, so that we can start without ourselves.
    ExceptOurs,
}

/// What a step that cannot do its work means for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenStep {
    /// The call fails and `failurePolicy` decides.
    FailsTheCall,
    /// The step's own writes are dropped, the other steps go on and the answer is "allowed". It counts and is
    /// logged as failed all the same. For requests that must never be refused because of us, whatever
    /// `failurePolicy` somebody sets.
    IsSkipped,
}

/// One behaviour of an endpoint.
#[derive(Debug)]
pub struct Step {
    /// Metric label, log field and anchor in the documentation.
    pub name: &'static str,
    /// Switches it; an endpoint without a step that is on is not registered.
    pub gate: Gate,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// What it reads from the API server through informers.
    pub reads: &'static [Access],
    /// Reads the context, writes the draft; no I/O.
    pub run: StepFn,
}

/// The code of a step.
pub type StepFn = fn(&Ctx<'_>, &mut Draft<'_>) -> Result<(), Stop>;

/// API access that something needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Resource, `resource/subresource` for a subresource.
    pub resource: &'static str,
    /// The objects it is restricted to; empty for all.
    pub names: &'static [&'static str],
    /// What is done with it.
    pub verbs: &'static [&'static str],
}

/// Why a step ends admission.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// A rule says no.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The step could not do its work.
    #[error(transparent)]
    Failed(#[from] StepError),
}

/// What a step may look at besides the draft.
pub struct Ctx<'a> {
    /// Who does what to which object.
    pub request: &'a Request,
    /// What is known about nodes.
    pub nodes: &'a dyn NodeLookup,
    /// The gates in force.
    pub gates: &'a GateSet,
    /// How far the stored heartbeat of an amplified node may stay behind; zero for not at all.
    pub heartbeat_interval: Duration,
    /// True if a ratio above the current hint is refused where it is written, and not only warned of.
    pub denies_above_hint: bool,
}

/// What is known about nodes, all in memory.
pub trait NodeLookup: Send + Sync {
    /// The configured policy for a node with these labels, which are read only if something depends on them; a mode
    /// annotation on the Node comes on top. `None` while the policy is not known.
    fn policy(&self, labels: &dyn Fn() -> Labels) -> Option<Policy>;

    /// The hint that counts for a node now.
    fn hint(&self, asked: &HintQuery<'_>) -> Option<EffectiveHint>;

    /// The Node as this replica has it in its store, with its annotations parsed; `None` while it is not there. What a
    /// request carries can be another state of it.
    fn stored(&self, node: &str) -> Option<Arc<Node>>;

    /// True while somebody else keeps writing the ratio of a node whose ratio is ours; `None` where that cannot be told.
    fn is_contested(&self, node: &str) -> Option<bool>;

    /// What the pods of a node hold beside what is `stored` of its allocatable, in milli-cores and bytes; `None` while that
    /// is not known. `is_told` says whether its kubelet tells what it has set aside.
    fn pod_demand(
        &self,
        node: &str,
        stored: PerResource<Option<u64>>,
        is_told: bool,
    ) -> Option<PerResource<PodDemand>>;

    /// The entries of Koordinator's other keys; none while they are not known.
    fn strategies(&self) -> Arc<Strategies>;
}

impl Endpoint {
    /// Metric label, log field and anchor in the documentation: the path without its slash.
    pub fn label(&self) -> &'static str {
        self.path.strip_prefix('/').unwrap_or(self.path)
    }

    /// True if at least one step is on.
    pub fn is_enabled(&self, gates: &GateSet) -> bool {
        self.steps.iter().any(|step| gates.enabled(&step.gate))
    }

    /// True if the endpoint was declared for such a request.
    pub fn serves(&self, request: &Request) -> bool {
        self.rules.iter().any(|rule| rule.matches(request))
    }
}

impl Rule {
    fn matches(&self, request: &Request) -> bool {
        let Self {
            operations,
            group,
            version,
            resource,
            sub_resource,
        } = *self;
        operations.contains(&request.operation)
            && (group, version, resource, sub_resource)
                == (
                    &request.group,
                    &request.version,
                    &request.resource,
                    &request.sub_resource,
                )
    }
}

impl Access {
    /// What an informer needs.
    pub const fn watch(group: &'static str, resource: &'static str) -> Self {
        Self::watch_named(group, resource, &[])
    }

    /// What an informer needs that follows only objects of these names.
    pub const fn watch_named(
        group: &'static str,
        resource: &'static str,
        names: &'static [&'static str],
    ) -> Self {
        Self {
            group,
            resource,
            names,
            verbs: &["get", "list", "watch"],
        }
    }
}
