//! `NodeView`: the webhook's data about one node, checked and converted to the types of `domain`.

use std::time::Duration;

use headroom_domain::{
    capacity::{self, Term},
    estimate::Profile,
    hint::{AgentMode, Brake, Freshness, NodeHint},
    policy::{InForce, Mode},
    ratio::{Cents, Ratio},
    resource::{PerResource, Resource},
};
use headroom_proto::{WireError, v1alpha1 as wire};

/// One node as the webhook knows it. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// The node's name.
    pub name: String,
    /// UID of the Node object.
    pub uid: String,
    /// The policy in force, as far as the webhook knows it.
    pub policy: Option<InForce>,
    /// Why the newest version of the ConfigMap is not in force.
    pub policy_refused: Option<String>,
    /// What is wrong with the floor of the API server.
    pub floor_trouble: Option<String>,
    /// The newest report of its agent.
    pub hint: Option<Hint>,
    /// A: the kubelet's own allocatable.
    pub raw: Option<PerResource<u64>>,
    /// Allocatable as stored.
    pub allocatable: Option<PerResource<u64>>,
    /// Allocatable at which mode `auto` would come to rest; of nodes in `off` and `static` whose agent's report counts.
    pub would_be: Option<PerResource<u64>>,
    /// R: requests bound to the node.
    pub bound: Option<PerResource<u64>>,
    /// Number of pods behind `bound`.
    pub pods: u32,
    /// The rules that a write of the status would be decided by, in the order in which they apply.
    pub rules: PerResource<Vec<Rule>>,
}

/// A rule as it applied to one resource. A newer webhook can have other rules and reasons than are known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its name, as [`headroom_domain::capacity::Rule::name`].
    pub name: String,
    /// What it came to.
    pub term: Option<Term>,
    /// Codes of its reasons, as [`headroom_domain::capacity::Why::code`].
    pub why: Vec<String>,
}

/// A report and how much it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The report.
    pub report: NodeHint,
    /// Its age in the answering replica's monotonic time.
    pub age: Duration,
    /// How much a report of that age counts.
    pub freshness: Freshness,
}

impl NodeView {
    /// How the node's ratio is chosen; `None` while the policy is not known.
    pub fn mode(&self) -> Option<Mode> {
        self.policy.as_ref().map(|in_force| in_force.policy.mode)
    }

    /// Allocatable over raw, to the nearest cent; `None` if either is not known.
    pub fn ratio(&self, resource: Resource) -> Option<Cents> {
        cents(*self.allocatable?.get(resource), *self.raw?.get(resource))
    }

    /// The ratio that mode `auto` would give, to the nearest cent; `None` where another mode keeps it already, or that is not
    /// known.
    pub fn would_be_ratio(&self, resource: Resource) -> Option<Cents> {
        cents(*self.would_be?.get(resource), *self.raw?.get(resource))
    }

    /// Measured use of the whole machine, the system's included: CPU over the agent's last frame, memory now.
    pub fn used(&self, resource: Resource) -> Option<u64> {
        Some(self.hint.as_ref()?.report.resources.get(resource).usage)
    }

    /// The highest use of the whole machine that is expected: never below [`Self::used`]. A report's peak of memory leaves
    /// out what is reserved for the system, as only the rest is for pods; here that counts, as it does in what is used.
    /// `None` while nothing has been predicted.
    pub fn peak(&self, resource: Resource) -> Option<u64> {
        let part = self.hint.as_ref()?.report.resources.get(resource);
        let reserved = match resource {
            Resource::Cpu => 0,
            Resource::Memory => part.capacity.saturating_sub(self.raw?.memory),
        };
        let peak = Some(part.predicted_peak).filter(|peak| *peak > 0)?;
        Some(peak.saturating_add(reserved).max(part.usage))
    }

    /// Allocatable less what is bound; `None` if either is not known.
    pub fn free(&self, resource: Resource) -> Option<i128> {
        Some(i128::from(*self.allocatable?.get(resource)) - i128::from(*self.bound?.get(resource)))
    }

    /// Codes of the reasons of all rules, in order.
    pub fn why(&self, resource: Resource) -> Vec<&str> {
        let rules = self.rules.get(resource).iter();
        rules.flat_map(|rule| &rule.why).map(String::as_str).collect()
    }

    /// What allocatable is to be; `None` where it is left alone.
    pub fn result(&self, resource: Resource) -> Option<u64> {
        let mut rules = self.rules.get(resource).iter();
        let result = rules.find(|rule| rule.name == capacity::Rule::Result.name())?;
        match result.term? {
            Term::Amount(amount) => Some(amount),
            Term::Ratio(_) => None,
        }
    }

    /// The same node, its hint older by `elapsed`.
    #[must_use]
    pub fn later(&self, elapsed: Duration) -> Self {
        let mut node = self.clone();
        if let Some(hint) = &mut node.hint {
            hint.age += elapsed;
        }
        node
    }

    /// True if the two differ in more than the age of the same report.
    pub fn differs_from(&self, other: &Self) -> bool {
        let ageless = |node: &Self| {
            let mut node = node.clone();
            if let Some(hint) = &mut node.hint {
                hint.age = Duration::ZERO;
            }
            node
        };
        ageless(self) != ageless(other)
    }
}

/// Where an agent's numbers come from.
pub const fn source(sight: AgentMode) -> &'static str {
    match sight {
        AgentMode::Full | AgentMode::FullShed => "ebpf",
        AgentMode::Proc => "procfs",
        AgentMode::Blind => "none",
    }
}

/// One amount over another, to the nearest cent; `None` over nothing.
pub(crate) fn cents(amount: u64, raw: u64) -> Option<Cents> {
    let (amount, raw) = (u128::from(amount), u128::from(raw));
    let cents = (amount * 200 + raw).checked_div(raw * 2)?;
    u32::try_from(cents).ok().map(Cents)
}

/// What an agent of that mode sees, for people.
pub const fn sight_words(mode: AgentMode) -> &'static str {
    match mode {
        AgentMode::Full => "full",
        AgentMode::FullShed => "full, fewer waits",
        AgentMode::Proc => "procfs only",
        AgentMode::Blind => "blind",
    }
}

/// What an agent sees, and a word of warning when its timing is not meant for production.
pub fn sees(hint: &Hint) -> String {
    let sight = sight_words(hint.report.sight);
    match hint.report.timing {
        Profile::Production => sight.to_owned(),
        Profile::Demo => format!("{sight}, demo timing"),
    }
}

/// The name of a brake's level, on every screen.
pub const fn brake_name(brake: Brake) -> &'static str {
    match brake {
        Brake::Off => "none",
        Brake::Hold => "L1 hold",
        Brake::Shed => "L2 shed",
        Brake::Stop => "L3 stop",
    }
}

/// How much a report counts, for people: the words of brakes are others.
pub const fn freshness_word(freshness: Freshness) -> &'static str {
    match freshness {
        Freshness::Fresh => "fresh",
        Freshness::Hold => "late",
        Freshness::Stop => "expired",
    }
}

/// The word for a freshness, on the wire and in JSON.
pub const fn freshness(freshness: Freshness) -> &'static str {
    match freshness {
        Freshness::Fresh => "fresh",
        Freshness::Hold => "hold",
        Freshness::Stop => "stop",
    }
}

fn wrong(field: &str, problem: String) -> WireError {
    WireError {
        field: field.to_owned(),
        problem,
    }
}

impl From<wire::Rule> for Rule {
    fn from(rule: wire::Rule) -> Self {
        let wire::Rule { name, term, why } = rule;
        let term = term.map(|term| match term {
            wire::rule::Term::Amount(amount) => Term::Amount(amount),
            wire::rule::Term::RatioNano(nano) => Term::Ratio(Ratio::from_nano(nano)),
        });
        Self { name, term, why }
    }
}

impl TryFrom<wire::NodeStatus> for NodeView {
    type Error = WireError;

    fn try_from(status: wire::NodeStatus) -> Result<Self, WireError> {
        let wire::NodeStatus {
            name,
            uid,
            policy,
            hint,
            hint_age_ms,
            hint_standing,
            raw,
            allocatable,
            bound,
            pods,
            policy_refused,
            floor_trouble,
            rules_cpu,
            rules_memory,
            would_be,
        } = status;
        let hint = match hint {
            None => None,
            Some(report) => Some(Hint {
                report: report.try_into()?,
                age: Duration::from_millis(hint_age_ms),
                freshness: [Freshness::Fresh, Freshness::Hold, Freshness::Stop]
                    .into_iter()
                    .find(|known| freshness(*known) == hint_standing)
                    .ok_or_else(|| wrong("hint_standing", format!("{hint_standing:?} is not known")))?,
            }),
        };
        Ok(Self {
            name,
            uid,
            policy: policy.map(InForce::try_from).transpose()?,
            policy_refused: Some(policy_refused).filter(|reason| !reason.is_empty()),
            floor_trouble: Some(floor_trouble).filter(|trouble| !trouble.is_empty()),
            hint,
            raw: raw.map(PerResource::from),
            allocatable: allocatable.map(PerResource::from),
            would_be: would_be.map(PerResource::from),
            bound: bound.map(PerResource::from),
            pods,
            rules: PerResource {
                cpu: rules_cpu.into_iter().map(Rule::from).collect(),
                memory: rules_memory.into_iter().map(Rule::from).collect(),
            },
        })
    }
}
