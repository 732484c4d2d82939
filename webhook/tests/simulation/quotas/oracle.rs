//! The rules of a tree, checked on what is stored. Nothing here is shared with the webhook.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelQuota {
    pub(super) uid: u64,
    pub(super) version: u64,
    pub(super) parent: Option<u8>,
    pub(super) is_parent: bool,
    pub(super) min: u8,
    /// The namespace that it lists.
    pub(super) listed: Option<u8>,
    pub(super) is_going: bool,
    /// Use that a scheduler has written.
    pub(super) used: u8,
}

/// All that is stored, by name and namespace.
pub(super) type ModelQuotas = BTreeMap<(u8, u8), ModelQuota>;

/// Checks everything. `doubtful` are the names of quotas that were admitted and not stored: what was admitted as a part of
/// one may have no parent.
pub(super) fn check(quotas: &ModelQuotas, doubtful: &BTreeSet<u8>) -> Result<(), String> {
    let by_name: BTreeMap<u8, &ModelQuota> = quotas.iter().map(|((name, _), quota)| (*name, quota)).collect();
    if by_name.len() != quotas.len() {
        return Err("two quotas have one name".to_owned());
    }
    let mut listed = BTreeSet::new();
    for quota in quotas.values() {
        if quota.listed.is_some_and(|namespace| !listed.insert(namespace)) {
            return Err(format!("two quotas list namespace {:?}", quota.listed));
        }
    }
    for (name, quota) in &by_name {
        check_parent(*name, quota, &by_name, doubtful)?;
        let parts = by_name.iter().filter(|(_, part)| part.parent == Some(*name));
        let sum: u32 = parts.map(|(_, part)| u32::from(part.min)).sum();
        if sum > u32::from(quota.min) && !doubtful.contains(name) {
            return Err(format!(
                "the parts of {name} are sure of {sum}, and it of {}",
                quota.min
            ));
        }
    }
    Ok(())
}

fn check_parent(
    name: u8,
    quota: &ModelQuota,
    by_name: &BTreeMap<u8, &ModelQuota>,
    doubtful: &BTreeSet<u8>,
) -> Result<(), String> {
    let Some(parent) = quota.parent else { return Ok(()) };
    match by_name.get(&parent) {
        None if !doubtful.contains(&parent) => return Err(format!("{name} has no parent {parent}")),
        Some(above) if !above.is_parent && !doubtful.contains(&parent) => {
            return Err(format!("{parent} is parent of {name} and none"));
        }
        None | Some(_) => {}
    }
    let (mut seen, mut above) = (BTreeSet::from([name]), Some(parent));
    while let Some(at) = above {
        if !seen.insert(at) {
            return Err(format!("{at} is above itself"));
        }
        above = by_name.get(&at).and_then(|quota| quota.parent);
    }
    Ok(())
}
