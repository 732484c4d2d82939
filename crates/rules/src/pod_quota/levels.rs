//! [`Level`]: a quota that has to have room for a Pod: its own, and those above it where they limit it, too.

use std::{collections::BTreeSet, sync::Arc};

use headroom_domain::amounts::Amounts;

use super::{
    cost, growth, is_limited,
    room::{Usage, room},
    room_error::RoomError,
};
use crate::{
    quota::{Quota, QuotaTree, tree::way_up},
    switch::{Switch, Switches},
};

/// Whether the quotas above that of a Pod limit it.
pub static LIMITS_ANCESTORS: Switch = Switch {
    name: "QuotaLimitsAncestors",
    default: false,
    row: "quotas, ancestors",
    koordinator: "only the quota of a pod is compared; the parts of a quota may together have more than its max",
    about: "each quota above that of the pod must have room as well, beside the pods of all its parts; the work of a review grows with the number of quotas in the tree",
    why: "the max of a department holds for its teams together",
};

/// A quota that has to have room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The quota.
    pub quota: Arc<Quota>,
    /// What the Pod asks for there, as far as the quota limits it and the Pod has not had it there before.
    pub cost: Amounts,
}

/// A stored Pod as far as it counts already.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'p> {
    /// The name of its quota.
    pub quota: &'p str,
    /// What it asks for.
    pub requested: &'p Amounts,
}

/// The levels of a Pod of that quota that asks for so much: the quota itself first, and those above it from the nearest on.
pub fn levels(
    quota: Arc<Quota>,
    asked: &Amounts,
    before: Option<Counted<'_>>,
    tree: &dyn QuotaTree,
    switches: &Switches,
) -> Vec<Level> {
    let are_limits = switches.is_on(&LIMITS_ANCESTORS);
    let counted = before.map(|before| (names_of(before.quota, are_limits, tree), before.requested));
    let names = if are_limits {
        way_up(&quota, tree).names
    } else {
        Vec::new()
    };
    let mut seen = BTreeSet::from([quota.name.clone()]);
    let above = names
        .into_iter()
        .filter(|name| is_limited(name) && seen.insert(name.clone()));
    let above: Vec<Arc<Quota>> = above.filter_map(|name| tree.by_name(&name)).collect();
    let level = |quota: Arc<Quota>| {
        let mut wanted = cost(asked, &quota);
        if let Some((_, requested)) = counted.as_ref().filter(|(names, _)| names.contains(&quota.name)) {
            let more = growth(asked, requested);
            let grown: Vec<&str> = more.iter().map(|(name, _)| name).collect();
            wanted = wanted.only(&grown);
        }
        Level { quota, cost: wanted }
    };
    [quota].into_iter().chain(above).map(level).collect()
}

/// The quotas in which a Pod of that quota counts.
fn names_of(quota: &str, are_limits: bool, tree: &dyn QuotaTree) -> BTreeSet<Box<str>> {
    let found = tree.by_name(quota).filter(|_| are_limits);
    let above = found.map_or_else(Vec::new, |found| way_up(&found, tree).names);
    above.into_iter().chain([quota.into()]).collect()
}

/// Whether each level has room beside what is used there.
///
/// # Errors
/// The nearest one that has none, or an annotation of which that counts and cannot be read.
pub fn room_on_all(levels: &[Level], used: &[Usage], switches: &Switches) -> Result<(), RoomError> {
    levels
        .iter()
        .zip(used)
        .try_for_each(|(level, used)| room(&level.quota, &level.cost, used, switches))
}
