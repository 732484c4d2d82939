//! Whether a quota has room for a Pod.

use std::collections::BTreeMap;

use headroom_domain::{
    amounts::Amounts,
    field::{Error, Errors, Path},
    names,
    quantity::Quantity,
};

use crate::{
    quota::{Quota, annotation},
    switch::{Switch, Switches},
};

/// Whether the pods that are there count, and not what the scheduler has noted of them.
pub static USED_BY_SUM: Switch = Switch {
    name: "QuotaCountsPods",
    default: true,
    row: "quotas, used",
    koordinator: "what is used stands in the annotation child-request, which the webhook raises with each pod and the scheduler overwrites each second",
    about: "what is used is the sum over the pods of the quota, those that were just admitted among them; the annotation is not read",
    why: "pods that were refused later, or only tried, do not count, and no pod is refused because two write one annotation",
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

/// What a quota has given out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// What the pods ask for that are stored, as far as this replica has seen them.
    pub stored: Amounts,
    /// What the pods ask for that were admitted and that it has not seen stored yet.
    pub claimed: Amounts,
    /// What the scheduler has noted of the pods in an annotation of the quota, as it is written; empty for nothing.
    pub noted: Box<str>,
}

/// A quota has no room for a Pod. Prints as Koordinator says it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoomError {
    /// An annotation of the quota cannot be read.
    #[error("{text}")]
    Annotation {
        /// What the decoder says of it.
        text: String,
        /// The quota, and which of its annotations.
        place: String,
    },
    /// The Pod asks for more than there is left.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        /// Namespace and name.
        quota: String,
        /// What the Pod asks for, of the resources that are too much.
        requested: Amounts,
        /// What others have of these.
        used: Amounts,
        /// What there may be of these.
        limited: Amounts,
    },
}

/// Whether a Pod of that cost fits into the quota beside what is used.
///
/// # Errors
/// It does not fit, or an annotation that counts cannot be read.
pub fn room(quota: &Quota, cost: &Amounts, usage: &Usage, switches: &Switches) -> Result<(), RoomError> {
    let Usage {
        stored,
        claimed,
        noted,
    } = usage;
    let used = if switches.is_on(&USED_BY_SUM) {
        Ok(stored.clone())
    } else {
        written(quota, names::QUOTA_CHILD_REQUEST, noted)
    };
    let admission = written(quota, names::QUOTA_ADMISSION, &quota.admission);
    let (used, admission) = both(used, admission)?;
    let names_any = EVALUATED.iter().any(|name| quota.max.contains(name));
    if cost.is_empty() || !(names_any || switches.is_on(&ALL_RESOURCES)) {
        return Ok(());
    }
    let limits = limits(&quota.max, admission, switches.is_on(&ADMISSION_ABOVE_MAX));
    let used = used.plus(claimed);
    let exceeds = |(name, amount): &(&str, &Quantity)| {
        let before = used.get(name).unwrap_or(&Quantity::ZERO);
        limits
            .get(name)
            .is_some_and(|limit| before.saturating_add(amount) > *limit)
    };
    let exceeded: Vec<&str> = cost.iter().filter(exceeds).map(|(name, _)| name).collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(RoomError::Exceeded {
        quota: full_name(quota),
        requested: cost.only(&exceeded),
        used: used.only(&exceeded),
        limited: limits.only(&exceeded),
    })
}

fn limits(max: &Amounts, admission: Amounts, keeps_max: bool) -> Amounts {
    if admission.is_empty() {
        return max.clone();
    }
    if !keeps_max {
        return admission;
    }
    let mut limits = max.clone();
    for (name, amount) in admission.iter().filter(|(name, _)| max.contains(name)) {
        limits.set(name, *amount);
    }
    limits
}

fn written(quota: &Quota, key: &str, text: &str) -> Result<Amounts, RoomError> {
    let amounts = annotation::amounts(text).map_err(|text| RoomError::Annotation {
        text,
        place: format!("{} of {}", key, full_name(quota)),
    });
    Ok(amounts?.unwrap_or_default())
}

/// Both values, or what is wrong with either: in brackets if both are wrong in different ways.
fn both(
    used: Result<Amounts, RoomError>,
    admission: Result<Amounts, RoomError>,
) -> Result<(Amounts, Amounts), RoomError> {
    match (used, admission) {
        (Ok(used), Ok(admission)) => Ok((used, admission)),
        (Err(RoomError::Annotation { text, place }), Err(RoomError::Annotation { text: other, .. }))
            if text != other =>
        {
            let text = format!("[{text}, {other}]");
            Err(RoomError::Annotation { text, place })
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

fn full_name(quota: &Quota) -> String {
    format!("{}/{}", quota.namespace, quota.name)
}

impl RoomError {
    /// The same for programs: each resource that is too much.
    pub fn errors(&self) -> Errors {
        let label = Path::new("metadata").child("labels").key(names::QUOTA_NAME);
        match self {
            Self::Annotation { text, place } => [Error::forbidden(
                &label,
                &format!("annotation {place} cannot be read: {text}"),
            )]
            .into_iter()
            .collect(),
            Self::Exceeded {
                quota,
                requested,
                used,
                limited,
            } => {
                let used: BTreeMap<&str, &Quantity> = used.iter().collect();
                let each = requested.iter().map(|(name, amount)| {
                    let used = used.get(name).copied().unwrap_or(&Quantity::ZERO);
                    let limit = limited.get(name).unwrap_or(&Quantity::ZERO);
                    let detail = format!("quota {quota} has {limit} of {name}, of which {used} are used");
                    Error::invalid(
                        &Path::new("spec").child("containers"),
                        format!("{name}={amount}"),
                        &detail,
                    )
                });
                each.collect()
            }
        }
    }
}
