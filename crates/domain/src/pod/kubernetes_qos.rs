//! Kubernetes' QoS class of a pod, computed from the spec as in Kubernetes' client libraries.

use std::fmt;

use super::{PodSpec, ResourceRequirements};
use crate::{amounts::Amounts, names, quantity::Quantity};

/// Kubernetes' QoS class. It differs from Koordinator's class of the same pod, [`crate::qos::Class`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KubernetesQos {
    /// Every container limits CPU and memory and requests as much.
    Guaranteed,
    /// Some CPU or memory is requested or limited.
    Burstable,
    /// No CPU or memory is requested or limited.
    BestEffort,
}

/// Sums of one resource over the inspected containers.
#[derive(Default)]
struct Sums {
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

impl KubernetesQos {
    /// All classes, from most to least protected.
    pub const ALL: [Self; 3] = [Self::Guaranteed, Self::Burstable, Self::BestEffort];

    /// Kubernetes' name of the class, such as `Burstable`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    /// Class of that name; case-sensitive, as in Kubernetes.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Computes the class from a spec. If pod-level resources are present, even if empty, only they are inspected;
    /// otherwise all containers and init containers are. Amounts at or below zero count as absent.
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
