//! Kubernetes' QoS class of a pod, as its client libraries compute it from the spec.

use std::fmt;

use super::{PodSpec, ResourceRequirements};
use crate::{amounts::Amounts, names, quantity::Quantity};

/// Kubernetes' QoS class. It is not Koordinator's own class of the same pod, [`crate::qos::Class`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KubernetesQos {
    /// CPU and memory are limited everywhere, and as much is requested.
    Guaranteed,
    /// Some CPU or memory is requested or limited.
    Burstable,
    /// No CPU or memory is requested or limited.
    BestEffort,
}

/// Sums of one resource over what is inspected.
#[derive(Default)]
struct Sums {
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

impl KubernetesQos {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::Guaranteed, Self::Burstable, Self::BestEffort];

    /// Kubernetes' name of the class.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    /// The class of that name; case-sensitive, as in Kubernetes.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// The class that a spec makes. Resources of the pod as a whole, be they empty, are inspected alone; else those of
    /// all containers and init containers are. Amounts that are not above zero count as absent.
    pub fn computed(spec: &PodSpec) -> Self {
        let containers = || spec.containers.iter().chain(&spec.init_containers);
        let inspected: Vec<&ResourceRequirements> = match &spec.resources {
            Some(resources) => vec![resources],
            None => containers().map(|container| &container.resources).collect(),
        };
        let mut is_guaranteed = true;
        let mut all = [Sums::default(), Sums::default()];
        for ResourceRequirements { requests, limits } in inspected {
            for (sums, name) in all.iter_mut().zip([names::CPU, names::MEMORY]) {
                is_guaranteed &= positive(limits, name).is_some();
                add(&mut sums.request, positive(requests, name));
                add(&mut sums.limit, positive(limits, name));
            }
        }
        if all
            .iter()
            .all(|sums| sums.request.is_none() && sums.limit.is_none())
        {
            Self::BestEffort
        } else if is_guaranteed && all.iter().all(|sums| sums.request == sums.limit) {
            Self::Guaranteed
        } else {
            Self::Burstable
        }
    }
}

impl fmt::Display for KubernetesQos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn positive(amounts: &Amounts, name: &str) -> Option<Quantity> {
    let amount = amounts.get(name).copied();
    amount.filter(|amount| *amount > Quantity::ZERO)
}

fn add(sum: &mut Option<Quantity>, amount: Option<Quantity>) {
    if let Some(amount) = amount {
        *sum = Some(sum.map_or(amount, |sum| sum.saturating_add(&amount)));
    }
}
