//! [`Declaration`]: what an endpoint is, apart from its steps: entries, limits, gates, and what its answers look like.

use std::time::Duration;

use headroom_domain::names;
use headroom_kit::gate::{Gate, GateSet};
use headroom_rules::switch::{Switch, Switches};

use crate::admission::{
    refusal::DenialStyle,
    review::{Operation, Request},
};

/// What an endpoint is, for the API server and for people.
#[derive(Debug)]
pub struct Declaration {
    /// URL path.
    pub path: &'static str,
    /// What it is for, in one sentence.
    pub about: &'static str,
    /// Whether it may change objects.
    pub kind: Kind,
    /// The webhook configuration object that has its entries; the family that it is served with follows from it.
    pub configuration: ConfigurationObject,
    /// Switches it as a whole, whatever its steps say.
    pub gate: Option<&'static Gate>,
    /// Gates that change a rule and switch no step.
    pub modifiers: &'static [&'static Gate],
    /// What the API server calls it for. Anything else that reaches it is allowed unchanged.
    pub entries: &'static [Entry],
    /// What a step that cannot do its work means for the answer.
    pub broken_step: BrokenStep,
    /// How a refusal is worded on the wire, where the refusal itself does not say.
    pub denial_style: DenialStyle,
    /// How many refusals one answer tells.
    pub denials: Denials,
    /// True if writes to objects that are being deleted pass unseen.
    pub skips_deleting: bool,
    /// Where reviews are answered.
    pub work: Work,
    /// What one of its requests, and all of them together, may take.
    pub limits: RequestLimits,
}

/// One entry in a webhook configuration.
#[derive(Debug)]
pub struct Entry {
    /// Its name; clients see it in messages.
    pub name: &'static str,
    /// What it is called for.
    pub rules: &'static [Rule],
    /// Whose objects it is called for.
    pub namespaces: Namespaces,
    /// Which objects it is called for.
    pub objects: Objects,
    /// CEL expressions that must all be true for a call.
    pub conditions: &'static [Condition],
    /// Whether an admitted request leaves a trace here.
    pub side_effects: SideEffects,
    /// What the API server does when a call fails.
    pub failure_policy: FailurePolicy,
    /// How long the API server waits, in whole seconds, at most 10.
    pub timeout: Duration,
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

/// An expression that the API server evaluates before it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// Its name, unique within the entry.
    pub name: &'static str,
    /// The expression, in CEL.
    pub expression: &'static str,
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
    /// As Koordinator's: everybody's but our own, `kube-system`, and those with a label `control-plane`.
    ExceptSystem,
}

/// Which objects an entry is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    /// All of them.
    All,
    /// Those with this label.
    Labelled {
        /// The label's key.
        key: &'static str,
        /// The label's value.
        value: &'static str,
    },
    /// Koordinator's ConfigMap alone, by the namespace and the name that an installation has for it.
    SloConfig,
}

/// Whether an admitted request leaves a trace in this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideEffects {
    /// It leaves none.
    None,
    /// One that is no dry run may.
    NoneOnDryRun,
}

/// A webhook configuration object; both kinds have one of each name. Deleting one switches off its endpoints alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigurationObject {
    /// `headroom-webhook`: nodes.
    Nodes,
    /// `headroom-pods`: pods and reservations.
    Pods,
    /// `headroom-quotas`: quotas.
    Quotas,
    /// `headroom-configuration`: Koordinator's ConfigMap.
    SloConfiguration,
    /// `headroom-integrations`: objects of other projects.
    Integrations,
}

/// Endpoints that are served together, by `--serve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Node amplification.
    Nodes,
    /// Admission of pods, reservations, quotas and configuration as Koordinator's webhook does it.
    Koordinator,
    /// Admission of objects of other projects.
    Integrations,
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

/// How many refusals one answer tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denials {
    /// That of the first step that says no; the later ones do not run.
    First,
    /// Those of all steps.
    All,
    /// Those of all steps while the switch is on, else that of the first.
    AllIf(&'static Switch),
}

/// Where reviews are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// On the thread that received it: it takes a fraction of a millisecond.
    InPassing,
    /// On a thread of its own, one at a time: it may take milliseconds, and nobody else waits for it.
    Apart,
}

/// What requests of one endpoint may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Longest body, in bytes; the limit of all endpoints may be lower.
    pub body_bytes: usize,
    /// Reviews that are answered at the same time.
    pub working: usize,
}

/// What switches a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Nothing: it is on while its endpoint is.
    Always,
    /// On while the gate is.
    On(&'static Gate),
    /// On while the gate is off.
    Off(&'static Gate),
}

/// What it means for a step that a source of it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownSource {
    /// The step has an answer for that itself.
    IsHandled,
    /// The call fails, and `failurePolicy` decides; never a denial.
    FailsTheCall,
    /// As [`Self::FailsTheCall`] where an object is created. The step does without its sources in any other request.
    FailsCreation,
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
    /// Each of them.
    pub const ALL: [Self; 5] = [
        Self::Nodes,
        Self::Pods,
        Self::Quotas,
        Self::SloConfiguration,
        Self::Integrations,
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
            Self::Integrations => &[names::INTEGRATIONS_CONFIGURATION],
        }
    }

    /// The family whose endpoints it has.
    pub const fn family(self) -> Family {
        match self {
            Self::Nodes => Family::Nodes,
            Self::Pods | Self::Quotas | Self::SloConfiguration => Family::Koordinator,
            Self::Integrations => Family::Integrations,
        }
    }
}

impl Family {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Nodes, Self::Koordinator, Self::Integrations];

    /// Its name, as in `--serve`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Koordinator => "koordinator",
            Self::Integrations => "integrations",
        }
    }
}

impl RequestLimits {
    /// 7 MiB hold object and oldObject at the largest size that the API server takes from a client. Four reviews at a time
    /// keep two CPUs busy, and each takes a fraction of a millisecond.
    pub const DEFAULT: Self = Self {
        body_bytes: 7 << 20,
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
