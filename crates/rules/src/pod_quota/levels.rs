//! [`Level`]: a quota that must have enough left for a Pod: the Pod's own quota, and its ancestors if they limit it too.

use std::{collections::BTreeSet, sync::Arc};

use headroom_domain::amounts::Amounts;

use super::{
    cost, growth, is_limited,
    quota_check::{Usage, check_quota},
    quota_check_error::QuotaCheckError,
};
use crate::{
    quota::{Quota, QuotaTree, tree::ancestor_path},
    switch::{Switch, Switches},
};

/// Switch: the ancestors of a Pod's quota limit it as well.
pub static LIMITS_ANCESTORS: Switch = Switch {
    name: "QuotaLimitsAncestors",
    default: false,
    row: "quotas, ancestors",
    koordinator: "only the pod's own quota is checked; the children of a quota may together exceed its max",
    about: "every ancestor of the pod's quota must have enough quota left too, in addition to the usage of all its descendants; the cost of a review grows with the number of quotas in the tree",
    why: "the max of a department limits its teams together",
};

/// Quota that must have enough left for a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The quota of this level.
    pub quota: Arc<Quota>,
    /// Amounts that the Pod adds to this quota, of the resources that it limits.
    pub cost: Amounts,
}

/// A stored Pod that is already counted.
#[derive(Debug, Clone, Copy)]
pub struct CountedPod<'p> {
    /// Name of the quota that counts it.
    pub quota: &'p str,
    /// Amounts that it requests, as counted.
    pub requested: &'p Amounts,
}

/// Levels of a Pod in `quota` with these requests: the quota itself first, then its ancestors from the nearest on.
pub fn levels(
    quota: Arc<Quota>,
    asked: &Amounts,
    before: Option<CountedPod<'_>>,
    tree: &dyn QuotaTree,
    switches: &Switches,
) -> Vec<Level> {
    let are_limits = switches.is_on(&LIMITS_ANCESTORS);
    let counted = before.map(|before| (names_of(before.quota, are_limits, tree), before.requested));
    let names = if are_limits {
        ancestor_path(&quota, tree).names
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

/// Names of the quotas that count a Pod of `quota`.
fn names_of(quota: &str, are_limits: bool, tree: &dyn QuotaTree) -> BTreeSet<Box<str>> {
    let found = tree.by_name(quota).filter(|_| are_limits);
    let above = found.map_or_else(Vec::new, |found| ancestor_path(&found, tree).names);
    above.into_iter().chain([quota.into()]).collect()
}

/// Checks that each level has enough quota left beyond its usage.
///
/// # Errors
/// The nearest level without enough quota left, or an annotation of a level that is needed but cannot be read.
pub fn check_levels(levels: &[Level], used: &[Usage], switches: &Switches) -> Result<(), QuotaCheckError> {
    levels
        .iter()
        .zip(used)
        .try_for_each(|(level, used)| check_quota(&level.quota, &level.cost, used, switches))
}
