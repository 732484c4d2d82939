//! Checks the name of the quota and the namespaces that it lists.

use std::collections::BTreeSet;

use headroom_domain::{field::Path, names};

use super::{QuotaChange, QuotaRules, QuotaTree, Violations, change::annotation};

/// Maximum number of namespaces in the annotation; a longer list is refused.
pub const MOST_NAMESPACES: usize = 10_000;

/// Adds the violations. `existing_passes` leaves the creation of an existing quota to the API server.
pub fn check(
    change: &QuotaChange,
    tree: &dyn QuotaTree,
    rules: QuotaRules,
    existing_passes: bool,
    found: &mut Violations,
) {
    let (name, new) = (&*change.new.name, &change.new);
    let field = Path::new("metadata").child("name");
    if change.old.is_some() {
        if change.is_tracked() && [names::SYSTEM_QUOTA, names::ROOT_QUOTA].contains(&name) {
            found.push(&field, name, format!("invalid quota {name}"));
        }
    } else {
        let is_here = tree.get(&new.namespace, name).is_some();
        let is_elsewhere = tree.by_name(name).is_some_and(|other| !other.is_same(new));
        if (is_here && !existing_passes) || (is_elsewhere && !is_here) {
            found.push(&field, name, format!("AddQuota quota already exist:{name}"));
        }
    }
    check_namespaces(change, tree, rules, found);
}

fn check_namespaces(change: &QuotaChange, tree: &dyn QuotaTree, rules: QuotaRules, found: &mut Violations) {
    let (name, new) = (&change.new.name, &change.new);
    let field = annotation(names::QUOTA_NAMESPACES);
    let listed: BTreeSet<&str> = change
        .baseline(rules)
        .into_iter()
        .flat_map(|old| &old.namespaces)
        .map(|namespace| &**namespace)
        .collect();
    let fresh = new
        .namespaces
        .iter()
        .filter(|namespace| !listed.contains(&***namespace));
    for namespace in fresh.take(MOST_NAMESPACES) {
        let Some(owner) = tree.owner(namespace).filter(|owner| !owner.is_same(new)) else {
            continue;
        };
        let owner = &owner.name;
        let text = if change.old.is_some() {
            format!(
                "UpdadteQuota, quota {name} update namespaces, but namespace {namespace} is already bound to quota {owner}"
            )
        } else {
            format!(
                "AddQuota quota {name}'s annotation namespace {namespace} is already bound to quota {owner}"
            )
        };
        found.push(&field, &**namespace, text);
    }
    let count = new.namespaces.len();
    if count > MOST_NAMESPACES && listed.len() <= MOST_NAMESPACES {
        found.push(
            &field,
            i64::try_from(count).unwrap_or(i64::MAX),
            format!("quota {name} lists {count} namespaces, at most {MOST_NAMESPACES} are allowed"),
        );
    }
}
