//! [`Limits`]: what the pods of a quota may ask for together, and what goes beyond it.

use std::collections::BTreeSet;

use headroom_domain::{amounts::Amounts, names, quantity::Quantity};

use super::room_error::{RoomError, written};
use crate::{
    quota::Quota,
    switch::{Switch, Switches},
};

/// Whether each resource of a quota is limited.
pub static ALL_RESOURCES: Switch = Switch {
    name: "QuotaLimitsAllResources",
    default: true,
    row: "quotas, resources",
    koordinator: "a quota is not evaluated unless its max names cpu, memory or another of fourteen resources",
    about: "a quota is evaluated whatever resources its max names",
    why: "a limit on a device alone is meant as one",
};

/// Whether a resource that the annotation for admission leaves out is limited by max.
pub static ADMISSION_ABOVE_MAX: Switch = Switch {
    name: "QuotaAdmissionKeepsMax",
    default: true,
    row: "quotas, admission",
    koordinator: "a resource that the annotation admission does not name is not limited as soon as it names another one",
    about: "a resource that the annotation admission does not name is limited by max",
    why: "who raises or stops one resource does not mean to open all others",
};

/// Resources of which Koordinator wants one among those of a quota.
const EVALUATED: [&str; 14] = [
    names::CPU,
    names::MEMORY,
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    names::BATCH_CPU,
    names::BATCH_MEMORY,
    names::MID_CPU,
    names::MID_MEMORY,
    names::GPU,
    "nvidia.com/gpu",
    names::GPU_SHARED,
    names::GPU_MEMORY_RATIO,
];

/// What the pods of a quota may ask for together. A resource that is not named is not limited. While it is not known which
/// version of the quota is stored, the smallest limit of any counts: a change that raises it may yet be refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// The limit of each resource; each is one that max names.
    pub amounts: Amounts,
    /// The resources whose limit the annotation for admission says.
    by_admission: BTreeSet<String>,
    /// False where pods are let in whatever they ask for.
    pub is_evaluated: bool,
}

/// Where a limit is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// `spec.max`.
    Max,
    /// The annotation for admission.
    Admission,
}

/// A resource of which more is used than the limit allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// Its name.
    pub resource: String,
    /// What is used.
    pub used: Quantity,
    /// What may be used.
    pub limit: Quantity,
    /// The difference, which is above zero.
    pub above: Quantity,
    /// Where the limit is from.
    pub source: LimitSource,
}

impl Limits {
    /// The limits of a quota.
    ///
    /// # Errors
    /// The annotation for admission cannot be read, in whatever version.
    pub fn read(quota: &Quota, switches: &Switches) -> Result<Self, RoomError> {
        let mut limits = Self::of_version(quota, switches)?;
        for version in quota.versions().skip(1) {
            limits.lower_to(Self::of_version(version, switches)?);
        }
        Ok(limits)
    }

    fn of_version(quota: &Quota, switches: &Switches) -> Result<Self, RoomError> {
        let admission = written(quota, names::QUOTA_ADMISSION, &quota.admission)?;
        let names_any = EVALUATED.iter().any(|name| quota.max.contains(name));
        let mut amounts = if admission.is_empty() || switches.is_on(&ADMISSION_ABOVE_MAX) {
            quota.max.clone()
        } else {
            Amounts::default()
        };
        let mut by_admission = BTreeSet::new();
        for (name, amount) in admission.iter().filter(|(name, _)| quota.max.contains(name)) {
            amounts.set(name, *amount);
            by_admission.insert(name.to_owned());
        }
        Ok(Self {
            amounts,
            by_admission,
            is_evaluated: names_any || switches.is_on(&ALL_RESOURCES),
        })
    }

    /// Takes each limit of the other that is smaller than ours, or that we do not have.
    fn lower_to(&mut self, other: Self) {
        if !self.is_evaluated || !other.is_evaluated {
            if other.is_evaluated {
                *self = other;
            }
            return;
        }
        for (name, limit) in other.amounts.iter() {
            if self.amounts.get(name).is_some_and(|ours| ours <= limit) {
                continue;
            }
            self.amounts.set(name, *limit);
            if other.by_admission.contains(name) {
                self.by_admission.insert(name.to_owned());
            } else {
                self.by_admission.remove(name);
            }
        }
    }

    /// Where the limit of a resource is from.
    pub fn source(&self, resource: &str) -> LimitSource {
        if self.by_admission.contains(resource) {
            LimitSource::Admission
        } else {
            LimitSource::Max
        }
    }

    /// What is left of a resource beside what is used, below zero where that is more than the limit; `None` if it is not
    /// limited.
    pub fn left(&self, resource: &str, used: &Amounts) -> Option<Quantity> {
        let used = used.get(resource).unwrap_or(&Quantity::ZERO);
        self.amounts.get(resource)?.checked_sub(used)
    }

    /// The resources of which more is used than their limits allow, by name.
    pub fn exceeded_by(&self, used: &Amounts) -> Vec<Excess> {
        if !self.is_evaluated {
            return Vec::new();
        }
        let exceeded = used.iter().filter_map(|(resource, used)| {
            let limit = self.amounts.get(resource)?;
            let above = used.checked_sub(limit).filter(|above| *above > Quantity::ZERO)?;
            Some(Excess {
                resource: resource.to_owned(),
                used: *used,
                limit: *limit,
                above,
                source: self.source(resource),
            })
        });
        exceeded.collect()
    }
}

impl LimitSource {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Admission => "admission",
        }
    }
}
