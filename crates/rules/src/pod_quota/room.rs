//! Whether a quota has room for a Pod.

use headroom_domain::{amounts::Amounts, names, quantity::Quantity};

use super::{
    limits::Limits,
    room_error::{RoomError, full_name, written},
};
use crate::{
    quota::Quota,
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

/// Whether a Pod of that cost fits into the quota beside what is used.
///
/// # Errors
/// It does not fit, or an annotation that counts cannot be read.
pub fn room(quota: &Quota, cost: &Amounts, usage: &Usage, switches: &Switches) -> Result<(), RoomError> {
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
    Err(RoomError::Exceeded {
        quota: full_name(quota),
        requested: cost.only(&exceeded),
        used: used.only(&exceeded),
        limited: limits.only(&exceeded),
    })
}

/// What is used of a quota by what counts as that: its pods, those included that were just admitted.
///
/// # Errors
/// It stands in an annotation that cannot be read.
pub fn used(quota: &Quota, usage: &Usage, switches: &Switches) -> Result<Amounts, RoomError> {
    let Usage {
        stored,
        claimed,
        noted,
    } = usage;
    let used = if switches.is_on(&USED_BY_SUM) {
        stored.clone()
    } else {
        written(quota, names::QUOTA_CHILD_REQUEST, noted)?
    };
    Ok(used.plus(claimed))
}

/// Both values, or what is wrong with either: in brackets if both are wrong in different ways.
fn both<T>(
    used: Result<Amounts, RoomError>,
    limits: Result<T, RoomError>,
) -> Result<(Amounts, T), RoomError> {
    match (used, limits) {
        (Ok(used), Ok(limits)) => Ok((used, limits)),
        (Err(RoomError::Annotation { text, place }), Err(RoomError::Annotation { text: other, .. }))
            if text != other =>
        {
            let text = format!("[{text}, {other}]");
            Err(RoomError::Annotation { text, place })
        }
        (Err(error), _) | (Ok(_), Err(error)) => Err(error),
    }
}
