//! Checks that a quota has enough left for a Pod.

use headroom_domain::{amounts::Amounts, names, quantity::Quantity};

use super::{
    limits::Limits,
    quota_check_error::{QuotaCheckError, full_name, written},
};
use crate::{
    quota::Quota,
    switch::{Switch, Switches},
};

/// Switch: usage is the sum over pods instead of the scheduler's annotation.
pub static USED_BY_SUM: Switch = Switch {
    name: "QuotaCountsPods",
    default: true,
    row: "quotas, used",
    koordinator: "usage is read from the annotation child-request, which the webhook raises with each pod and the scheduler overwrites every second",
    about: "usage is the sum over the pods of the quota, including pods just admitted; the annotation is not read. With false, it is the larger of the annotation and that sum",
    why: "pods that were refused later or dry-run do not count, and no pod is refused because of a write conflict on the annotation",
};

/// Usage of a quota by its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requests of the stored pods, as far as this replica has observed them.
    pub stored: Amounts,
    /// Requests of pods that were admitted but not yet observed as stored.
    pub pending: Amounts,
    /// Usage that the scheduler wrote into an annotation of the quota, as text; empty if there is none.
    pub noted: Box<str>,
}

/// Checks that a Pod of this cost fits into the quota in addition to its usage.
///
/// # Errors
/// The Pod does not fit, or a needed annotation cannot be read.
pub fn check_quota(
    quota: &Quota,
    cost: &Amounts,
    usage: &Usage,
    switches: &Switches,
) -> Result<(), QuotaCheckError> {
    let (used, limits) = both(used(quota, usage, switches), Limits::read(quota, switches))?;
    if cost.is_empty() || !limits.is_evaluated {
        return Ok(());
    }
    let limits = limits.amounts;
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
    Err(QuotaCheckError::Exceeded {
        quota: full_name(quota),
        requested: cost.only(&exceeded),
        used: used.only(&exceeded),
        limited: limits.only(&exceeded),
    })
}

/// Returns the usage of a quota, including pods just admitted.
///
/// # Errors
/// The usage comes from an annotation that cannot be read.
pub fn used(quota: &Quota, usage: &Usage, switches: &Switches) -> Result<Amounts, QuotaCheckError> {
    let Usage {
        stored,
        pending,
        noted,
    } = usage;
    let used = if switches.is_on(&USED_BY_SUM) {
        stored.clone()
    } else {
        // The scheduler writes it once a second: pods of a burst would not count.
        written(quota, names::QUOTA_CHILD_REQUEST, noted)?.max(stored)
    };
    Ok(used.plus(pending))
}

/// Returns both values, or the errors; two different errors are joined in brackets.
fn both<T>(
    used: Result<Amounts, QuotaCheckError>,
    limits: Result<T, QuotaCheckError>,
) -> Result<(Amounts, T), QuotaCheckError> {
    match (used, limits) {
        (Ok(used), Ok(limits)) => Ok((used, limits)),
        (
            Err(QuotaCheckError::Annotation { text, place }),
            Err(QuotaCheckError::Annotation { text: other, .. }),
        ) if text != other => {
            let text = format!("[{text}, {other}]");
            Err(QuotaCheckError::Annotation { text, place })
        }
        (Err(error), _) | (Ok(_), Err(error)) => Err(error),
    }
}
