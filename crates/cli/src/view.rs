//! [`NodeView`]: the webhook's data about one node, validated and converted to types of `domain`.

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

/// One node as the webhook knows it. CPU is in milli-cores, memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    pub uid: String,
    /// Policy in force; `None` if the webhook does not know it yet.
    pub policy: Option<InForce>,
    /// Reason why the newest version of the ConfigMap is not in force.
    pub policy_refused: Option<String>,
    /// Fault of the floor, the MutatingAdmissionPolicy that keeps amplified values while no webhook answers.
    pub floor_trouble: Option<String>,
    pub hint: Option<Hint>,
    /// Allocatable as the kubelet reports it, without amplification.
    pub raw: Option<PerResource<u64>>,
    pub allocatable: Option<PerResource<u64>>,
    /// Allocatable that mode `auto` would reach. Only for nodes in `off` and `static` whose agent's report counts.
    pub projected: Option<PerResource<u64>>,
    /// Sum of the requests of the pods that are bound to the node.
    pub bound: Option<PerResource<u64>>,
    /// Number of pods behind `bound`.
    pub pods: u32,
    /// Rules that decide a status write, in the order in which they apply.
    pub rules: PerResource<Vec<Rule>>,
    /// Capacity that pods left for their successors, the oldest first.
    pub places: Vec<OpenPlace>,
}

/// Place that a pod of a controller left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPlace {
    /// Controller, such as `DaemonSet kube-system/cni`; empty if the answering replica did not see the departure.
    pub owner: String,
    /// Word for the ability of a successor to run on another node.
    pub kind: String,
    /// Amounts that no pod has used yet.
    pub amounts: PerResource<u64>,
    /// Time until it closes, by the monotonic clock of the answering replica.
    pub closes_in: Duration,
}

/// A rule applied to one resource. A newer webhook may have rules and reasons that this program does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub name: String,
    pub term: Option<Term>,
    /// Reason codes, as in [`headroom_domain::capacity::Why::code`].
    pub why: Vec<String>,
}

/// A report, its age and its freshness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    pub report: NodeHint,
    /// Age by the monotonic clock of the answering replica.
    pub age: Duration,
    pub freshness: Freshness,
}

impl NodeView {
    /// Mode of the node; `None` while the policy is unknown.
    pub fn mode(&self) -> Option<Mode> {
        self.policy.as_ref().map(|in_force| in_force.policy.mode)
    }

    /// Allocatable divided by raw, to the nearest cent; `None` if either is unknown.
    pub fn ratio(&self, resource: Resource) -> Option<Cents> {
        cents(*self.allocatable?.get(resource), *self.raw?.get(resource))
    }

    /// Ratio that mode `auto` would give, to the nearest cent; `None` in modes `guard` and `auto`, or if unknown.
    pub fn projected_ratio(&self, resource: Resource) -> Option<Cents> {
        cents(*self.projected?.get(resource), *self.raw?.get(resource))
    }

    /// Measured use of the whole machine, the system included: CPU over the agent's last frame, memory now.
    pub fn used(&self, resource: Resource) -> Option<u64> {
        Some(self.hint.as_ref()?.report.resources.get(resource).usage)
    }

    /// Highest expected use of the whole machine; never below [`Self::used`]. A report's memory peak excludes the
    /// memory
    /// reserved for the system; that reservation is added here. `None` while no peak has been predicted.
    pub fn peak(&self, resource: Resource) -> Option<u64> {
        let part = self.hint.as_ref()?.report.resources.get(resource);
        let reserved = match resource {
            Resource::Cpu => 0,
            Resource::Memory => part.capacity.saturating_sub(self.raw?.memory),
        };
        let peak = Some(part.predicted_peak).filter(|peak| *peak > 0)?;
        Some(peak.saturating_add(reserved).max(part.usage))
    }

    /// Allocatable minus bound requests; `None` if either is unknown.
    pub fn free(&self, resource: Resource) -> Option<i128> {
        Some(i128::from(*self.allocatable?.get(resource)) - i128::from(*self.bound?.get(resource)))
    }

    /// Reason codes of all rules, in order.
    pub fn why(&self, resource: Resource) -> Vec<&str> {
        let rules = self.rules.get(resource).iter();
        rules.flat_map(|rule| &rule.why).map(String::as_str).collect()
    }

    /// Target allocatable; `None` where no rule changes it.
    pub fn result(&self, resource: Resource) -> Option<u64> {
        let mut rules = self.rules.get(resource).iter();
        let result = rules.find(|rule| rule.name == capacity::Rule::Result.name())?;
        match result.term? {
            Term::Amount(amount) => Some(amount),
            Term::Ratio(_) => None,
        }
    }

    /// A copy whose hint is older by `elapsed`.
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
            for place in &mut node.places {
                place.closes_in = Duration::ZERO;
            }
            node
        };
        ageless(self) != ageless(other)
    }
}

/// Source of an agent's numbers.
pub const fn source(sight: AgentMode) -> &'static str {
    match sight {
        AgentMode::Full | AgentMode::FullShed => "ebpf",
        AgentMode::Proc => "procfs",
        AgentMode::Blind => "none",
    }
}

/// `amount` divided by `raw`, to the nearest cent; `None` if `raw` is 0.
pub(crate) fn cents(amount: u64, raw: u64) -> Option<Cents> {
    let (amount, raw) = (u128::from(amount), u128::from(raw));
    let cents = (amount * 200 + raw).checked_div(raw * 2)?;
    u32::try_from(cents).ok().map(Cents)
}

/// Words for an agent's mode, for people.
pub const fn mode_words(mode: AgentMode) -> &'static str {
    match mode {
        AgentMode::Full => "full",
        AgentMode::FullShed => "full, fewer waits",
        AgentMode::Proc => "procfs only",
        AgentMode::Blind => "blind",
    }
}

/// Words for an agent's mode, with a warning if its timing is not for production.
pub fn sees(hint: &Hint) -> String {
    let sight = mode_words(hint.report.sight);
    match hint.report.timing {
        Profile::Production => sight.to_owned(),
        Profile::Demo => format!("{sight}, demo timing"),
    }
}

/// Name of a brake's level in all text output.
pub const fn brake_name(brake: Brake) -> &'static str {
    match brake {
        Brake::Off => "none",
        Brake::Hold => "L1 hold",
        Brake::Shed => "L2 shed",
        Brake::Stop => "L3 stop",
    }
}

/// Word for a report's freshness, for people; it differs from the words for brakes.
pub const fn freshness_word(freshness: Freshness) -> &'static str {
    match freshness {
        Freshness::Fresh => "fresh",
        Freshness::Hold => "late",
        Freshness::Stop => "expired",
    }
}

/// Word for a freshness, on the wire and in JSON.
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

impl From<wire::OpenPlace> for OpenPlace {
    fn from(place: wire::OpenPlace) -> Self {
        let wire::OpenPlace {
            owner,
            kind,
            amounts,
            closes_in_ms,
        } = place;
        Self {
            owner,
            kind,
            amounts: amounts.unwrap_or_default().into(),
            closes_in: Duration::from_millis(closes_in_ms),
        }
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
            places,
        } = status;
        let hint = match hint {
            None => None,
            Some(report) => Some(Hint {
                report: report.try_into()?,
                age: Duration::from_millis(hint_age_ms),
                freshness: [Freshness::Fresh, Freshness::Hold, Freshness::Stop]
                    .into_iter()
                    .find(|known| freshness(*known) == hint_standing)
                    .ok_or_else(|| wrong("hint_standing", format!("{hint_standing:?} is unknown")))?,
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
            projected: would_be.map(PerResource::from),
            bound: bound.map(PerResource::from),
            pods,
            rules: PerResource {
                cpu: rules_cpu.into_iter().map(Rule::from).collect(),
                memory: rules_memory.into_iter().map(Rule::from).collect(),
            },
            places: places.into_iter().map(OpenPlace::from).collect(),
        })
    }
}
