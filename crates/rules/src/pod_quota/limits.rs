//! [`Limits`]: total amounts that the pods of a quota may request, and the amounts beyond them.

use std::collections::BTreeSet;

use headroom_domain::{amounts::Amounts, names, quantity::Quantity};

use super::quota_check_error::{QuotaCheckError, written};
use crate::{
    quota::Quota,
    switch::{Switch, Switches},
};

/// Switch: every resource of a quota is limited.
pub static ALL_RESOURCES: Switch = Switch {
    name: "QuotaLimitsAllResources",
    default: true,
    row: "quotas, resources",
    koordinator: "a quota is evaluated only if its max contains cpu, memory or another of fourteen resources",
    about: "a quota is evaluated for any resources in its max",
    why: "a limit on devices alone is a limit too",
};

/// Switch: max limits a resource that the annotation admission omits.
pub static ADMISSION_ABOVE_MAX: Switch = Switch {
    name: "QuotaAdmissionKeepsMax",
    default: true,
    row: "quotas, admission",
    koordinator: "once the annotation admission names any resource, resources that it omits are unlimited",
    about: "a resource that the annotation admission omits is limited by max",
    why: "raising or stopping one resource is not meant to remove the limits of all others",
};

/// Resources of which Koordinator requires at least one in a quota's max.
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

/// Total amounts that the pods of a quota may request. A resource without an entry is unlimited. While the stored
/// version of the quota is unknown, the smallest limit of any version applies: a change that raises a limit may still
/// be refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Limit of each resource; each is in `spec.max`.
    pub amounts: Amounts,
    /// Resources whose limit comes from the admission annotation.
    by_admission: BTreeSet<String>,
    /// False if all pods are admitted regardless of their requests.
    pub is_evaluated: bool,
}

/// Origin of a resource's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The limit comes from `spec.max`.
    Max,
    /// The limit comes from the admission annotation.
    Admission,
}

/// Resource whose usage exceeds its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// Name of the exceeded resource.
    pub resource: String,
    /// Amount in use by the quota's pods.
    pub used: Quantity,
    /// Maximum amount for the quota's pods.
    pub limit: Quantity,
    /// Usage minus limit; greater than zero.
    pub above: Quantity,
    /// Origin of the exceeded limit.
    pub source: LimitSource,
}

impl Limits {
    /// Reads the limits of a quota.
    ///
    /// # Errors
    /// The admission annotation of any version cannot be read.
    pub fn read(quota: &Quota, switches: &Switches) -> Result<Self, QuotaCheckError> {
        let mut limits = Self::of_version(quota, switches)?;
        for version in quota.versions().skip(1) {
            limits.lower_to(Self::of_version(version, switches)?);
        }
        Ok(limits)
    }

    fn of_version(quota: &Quota, switches: &Switches) -> Result<Self, QuotaCheckError> {
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

    /// Lowers each limit to that of `other` where it is smaller, and adds limits that only `other` has.
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

    /// Origin of a resource's limit.
    pub fn source(&self, resource: &str) -> LimitSource {
        if self.by_admission.contains(resource) {
            LimitSource::Admission
        } else {
            LimitSource::Max
        }
    }

    /// Limit minus usage of a resource, negative if it is exceeded; `None` if the resource is unlimited.
    pub fn left(&self, resource: &str, used: &Amounts) -> Option<Quantity> {
        let used = used.get(resource).unwrap_or(&Quantity::ZERO);
        self.amounts.get(resource)?.checked_sub(used)
    }

    /// Resources whose usage exceeds their limit, by name.
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
    /// Name in output and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Admission => "admission",
        }
    }
}
