//! What a webhook says of one node, checked and in the vocabulary of `domain`.

use std::time::Duration;

use headroom_domain::{
    hint::{Brake, NodeHint, Sight, Standing},
    policy::{InForce, Mode},
    ratio::Cents,
    resource::{PerResource, Resource},
};
use headroom_proto::{WireError, v1alpha1 as wire};

/// One node as the webhook knows it. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The node's name.
    pub name: String,
    /// UID of the Node object.
    pub uid: String,
    /// The policy in force, as far as the webhook knows it.
    pub policy: Option<InForce>,
    /// Why the newest version of the ConfigMap is not in force.
    pub policy_refused: Option<String>,
    /// The newest report of its agent.
    pub hint: Option<Hint>,
    /// A: the kubelet's own allocatable.
    pub raw: Option<PerResource<u64>>,
    /// Allocatable as stored.
    pub allocatable: Option<PerResource<u64>>,
    /// R: requests bound to the node.
    pub bound: Option<PerResource<u64>>,
    /// Number of pods behind `bound`.
    pub pods: u32,
    /// Reasons of the webhook's last decision.
    pub why: PerResource<Vec<String>>,
}

/// A report and how much it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The report.
    pub report: NodeHint,
    /// Its age in the answering replica's monotonic time.
    pub age: Duration,
    /// How much a report of that age counts.
    pub standing: Standing,
}

impl Node {
    /// How the node's ratio is chosen; `None` while the policy is not known.
    pub fn mode(&self) -> Option<Mode> {
        self.policy.as_ref().map(|in_force| in_force.policy.mode)
    }

    /// Allocatable over raw, to the nearest cent; `None` if either is not known.
    pub fn ratio(&self, resource: Resource) -> Option<Cents> {
        let raw = u128::from(*self.raw?.get(resource));
        let allocatable = u128::from(*self.allocatable?.get(resource));
        let cents = (allocatable * 200 + raw).checked_div(raw * 2)?;
        u32::try_from(cents).ok().map(Cents)
    }

    /// Allocatable less what is bound; `None` if either is not known.
    pub fn free(&self, resource: Resource) -> Option<i128> {
        Some(i128::from(*self.allocatable?.get(resource)) - i128::from(*self.bound?.get(resource)))
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
pub const fn source(sight: Sight) -> &'static str {
    match sight {
        Sight::Full | Sight::FullShed => "ebpf",
        Sight::Proc => "procfs",
        Sight::Blind => "none",
    }
}

/// The word for a brake.
pub const fn brake(brake: Brake) -> &'static str {
    match brake {
        Brake::Off => "none",
        Brake::Hold => "hold",
        Brake::Shed => "shed",
        Brake::Stop => "stop",
    }
}

/// The word for a standing, on the wire and in tables.
pub const fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Fresh => "fresh",
        Standing::Hold => "hold",
        Standing::Stop => "stop",
    }
}

fn wrong(field: &str, problem: String) -> WireError {
    WireError {
        field: field.to_owned(),
        problem,
    }
}

impl TryFrom<wire::NodeStatus> for Node {
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
            why_cpu,
            why_memory,
            policy_refused,
        } = status;
        let hint = match hint {
            None => None,
            Some(report) => Some(Hint {
                report: report.try_into()?,
                age: Duration::from_millis(hint_age_ms),
                standing: [Standing::Fresh, Standing::Hold, Standing::Stop]
                    .into_iter()
                    .find(|known| standing(*known) == hint_standing)
                    .ok_or_else(|| wrong("hint_standing", format!("{hint_standing:?} is not known")))?,
            }),
        };
        Ok(Self {
            name,
            uid,
            policy: policy.map(InForce::try_from).transpose()?,
            policy_refused: Some(policy_refused).filter(|reason| !reason.is_empty()),
            hint,
            raw: raw.map(PerResource::from),
            allocatable: allocatable.map(PerResource::from),
            bound: bound.map(PerResource::from),
            pods,
            why: PerResource {
                cpu: why_cpu,
                memory: why_memory,
            },
        })
    }
}
