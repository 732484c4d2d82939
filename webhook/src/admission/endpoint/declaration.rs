//! [`Declaration`]: properties of an endpoint besides its steps: entries, limits, gates, and the form of its answers.

use std::time::Duration;

use headroom_domain::{installation::Family, names};
use headroom_kit::gate::{Gate, GateSet};
use headroom_rules::switch::{Switch, Switches};

use crate::admission::{
    refusal::DenialStyle,
    review::{LONGEST_HEAD, Operation, Request},
};

/// Properties of an endpoint for the API server and for users.
#[derive(Debug)]
pub struct Declaration {
    pub path: &'static str,
    /// Purpose of the endpoint, in one sentence.
    pub about: &'static str,
    /// Mutating or validating.
    pub kind: Kind,
    /// The webhook configuration object that has its entries; the family that it is served with follows from it.
    pub configuration: ConfigurationObject,
    /// Switches the endpoint as a whole, regardless of its steps.
    pub gate: Option<&'static Gate>,
    /// Gates that change a rule and switch no step.
    pub modifiers: &'static [&'static Gate],
    /// Requests that the API server sends to it. All others are allowed unchanged.
    pub entries: &'static [Entry],
    /// Consequence of a step that fails.
    pub broken_step: BrokenStep,
    /// Wording of a refusal on the wire, unless the refusal sets its own.
    pub denial_style: DenialStyle,
    /// Number of refusals in one answer.
    pub denials: Denials,
    /// Requests that pass without a review.
    pub passes: &'static [Pass],
    pub work: Work,
    /// Limits of one request, and of all its requests together.
    pub limits: RequestLimits,
}

/// One entry in a webhook configuration.
#[derive(Debug)]
pub struct Entry {
    /// Its name; clients see it in messages.
    pub name: &'static str,
    /// Switches it while its endpoint is on.
    pub when: When,
    /// Operations and resources that it is called for.
    pub rules: &'static [Rule],
    /// Namespaces that it is called for.
    pub namespaces: Namespaces,
    /// Objects that it is called for.
    pub objects: Objects,
    /// CEL expressions that must all be true for a call.
    pub conditions: &'static [Condition],
    /// Trace of an admitted request in this replica.
    pub side_effects: SideEffects,
    /// Consequence of a failed call in the API server.
    pub failure_policy: FailurePolicy,
    /// Timeout in the API server, in whole seconds, at most 10.
    pub timeout: Duration,
}

/// Mutating or validating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It may, and is called once or again after later changes.
    Mutating(Reinvocation),
    /// It only allows or refuses.
    Validating,
}

/// Second call of a mutating entry after a later plugin changed the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reinvocation {
    Never,
    IfNeeded,
}

/// Requests that an endpoint is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub operations: &'static [Operation],
    /// API group, empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub resource: &'static str,
    /// Subresource, empty for the resource itself.
    pub sub_resource: &'static str,
}

/// An expression that the API server evaluates before it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// Its name, unique within the entry.
    pub name: &'static str,
    /// CEL expression.
    pub expression: &'static str,
}

/// Consequence of a failed call in the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    /// The request continues as if the endpoint did not exist.
    Ignore,
}

/// Namespaces that an endpoint is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespaces {
    /// All namespaces.
    All,
    /// The objects are cluster-scoped, so a selector of namespaces has no effect.
    ClusterScoped,
    /// All namespaces except ours, so that the webhook can start without itself.
    ExceptOurs,
    /// Koordinator's selection: all namespaces except ours, `kube-system`, and those with a label `control-plane`.
    ExceptSystem,
}

/// Objects that an entry is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    All,
    Labelled {
        key: &'static str,
        value: &'static str,
    },
    /// Koordinator's ConfigMap alone, by the namespace and the name that an installation has for it.
    SloConfig,
}

/// Trace of an admitted request in this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideEffects {
    None,
    /// One that is no dry run may.
    NoneOnDryRun,
}

/// A webhook configuration object; both kinds have one of each name. Deleting one switches off its endpoints alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigurationObject {
    Nodes,
    Pods,
    Quotas,
    SloConfiguration,
    /// `headroom-fluid`: pods with data of Fluid.
    Fluid,
}

/// Consequence of a step that fails, for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenStep {
    /// The call fails and `failurePolicy` decides.
    FailsTheCall,
    /// The step's own writes are dropped, the other steps continue, and the answer is "allowed". It still counts and
    /// is logged as failed. For requests that must never be refused because of us, whatever `failurePolicy` a user
    /// sets.
    IsSkipped,
}

/// Number of refusals in one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denials {
    /// Refusal of the first refusing step; the later steps do not run.
    First,
    All,
    /// Refusals of all steps while the switch is on, else that of the first.
    AllIf(&'static Switch),
}

/// Requests that pass without a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// An update of an object under deletion that changes only its finalizers.
    Finalizers,
    /// A mirror pod, written by the kubelet of its node. The static pod runs anyway, and a mirror pod that differs from
    /// it, or does not exist, hides it from the cluster.
    MirrorPods,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// On the thread that received it: it takes a fraction of a millisecond.
    Inline,
    /// On a thread of its own, one at a time: it may take milliseconds, and no other endpoint waits for it.
    Offloaded,
}

/// Longest request body that the API server decodes: `MaxRequestBodyBytes` of `k8s.io/apiserver/pkg/server/config.go`,
/// which is twice the longest object that etcd stores by default (`--max-request-bytes`, 1.5 MiB).
const LONGEST_REQUEST: usize = 3 << 20;
/// Most bytes of JSON for one byte of an object in protobuf. Go's `encoding/json` writes `<`, `>`, `&`, control
/// characters and invalid UTF-8 as six bytes, such as `\u003c`. The names of members take at most as much: those of a
/// Node's empty condition take 76 bytes for 14.
const MOST_BYTES_OF_ONE: usize = 6;
/// Longest review that the API server can send about a request that it can store. A Binding is not stored, so its
/// object may be as long as a request. Of an update, `object` and `oldObject` have at most 1.5 MiB each in etcd.
pub const LONGEST_REVIEW: usize = MOST_BYTES_OF_ONE * LONGEST_REQUEST + LONGEST_HEAD;

/// Limits on requests of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Longest body, in bytes; the limit of all endpoints may be lower.
    pub body_bytes: usize,
    /// Reviews that are answered at the same time.
    pub working: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The step is on while its endpoint is.
    Always,
    /// The step is on while the gate is.
    On(&'static Gate),
    /// The step is on while the gate is off.
    Off(&'static Gate),
}

/// Consequence of an unknown source for a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownSource {
    /// The step has an answer for that itself.
    IsHandled,
    /// The call fails, and `failurePolicy` decides; never a denial.
    FailsTheCall,
    /// Like [`Self::FailsTheCall`] for the creation of an object. The step ignores its sources in any other request.
    FailsCreation,
    /// The step itself fails the calls that need the source, and answers the others.
    FailsSomeCalls,
}

impl UnknownSource {
    /// True if calls fail while a source of the step is unknown.
    pub const fn fails_calls(self) -> bool {
        match self {
            Self::IsHandled => false,
            Self::FailsTheCall | Self::FailsCreation | Self::FailsSomeCalls => true,
        }
    }
}

impl Declaration {
    /// Metric label, log field and anchor in the documentation: the path without its slash.
    pub fn label(&self) -> &'static str {
        self.path.strip_prefix('/').unwrap_or(self.path)
    }

    /// True if some entry was declared for such a request.
    pub fn serves(&self, request: &Request) -> bool {
        self.rules().any(|rule| rule.matches(request))
    }

    /// The rules of all entries.
    pub fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        self.entries.iter().flat_map(|entry| entry.rules)
    }

    /// The longest time that the API server waits for an entry.
    pub fn timeout(&self) -> Duration {
        let timeouts = self.entries.iter().map(|entry| entry.timeout);
        timeouts.max().unwrap_or_default()
    }

    /// The family that it is served with.
    pub const fn family(&self) -> Family {
        self.configuration.family()
    }
}

impl ConfigurationObject {
    pub const ALL: [Self; 5] = [
        Self::Nodes,
        Self::Pods,
        Self::Quotas,
        Self::SloConfiguration,
        Self::Fluid,
    ];

    /// Its name in an installation without a suffix.
    pub const fn name(self) -> &'static str {
        let [name] = self.names();
        name
    }

    /// A list of that name alone.
    pub const fn names(self) -> &'static [&'static str; 1] {
        match self {
            Self::Nodes => &[names::WEBHOOK_CONFIGURATION],
            Self::Pods => &[names::PODS_CONFIGURATION],
            Self::Quotas => &[names::QUOTAS_CONFIGURATION],
            Self::SloConfiguration => &[names::SLO_CONFIGURATION],
            Self::Fluid => &[names::FLUID_CONFIGURATION],
        }
    }

    /// Family of the endpoints in this object.
    pub const fn family(self) -> Family {
        match self {
            Self::Nodes => Family::Nodes,
            Self::Pods | Self::Quotas | Self::SloConfiguration => Family::Koordinator,
            Self::Fluid => Family::Fluid,
        }
    }
}

impl RequestLimits {
    /// Four reviews at a time keep two CPUs busy, and each takes a fraction of a millisecond.
    pub const DEFAULT: Self = Self {
        body_bytes: LONGEST_REVIEW,
        working: 4,
    };
}

impl Denials {
    /// True if one refusal is enough.
    pub fn end_with_first(self, switches: &Switches) -> bool {
        match self {
            Self::First => true,
            Self::All => false,
            Self::AllIf(switch) => !switches.is_on(switch),
        }
    }
}

impl When {
    /// True if it switches on with these gates.
    pub fn is_on(self, gates: &GateSet) -> bool {
        match self {
            Self::Always => true,
            Self::On(gate) => gates.enabled(gate),
            Self::Off(gate) => !gates.enabled(gate),
        }
    }

    /// The gate, if there is one.
    pub const fn gate(self) -> Option<&'static Gate> {
        match self {
            Self::Always => None,
            Self::On(gate) | Self::Off(gate) => Some(gate),
        }
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
