//! Checks of a deletion: a quota that is in use must stay.

use headroom_domain::{field::Path, names};

use super::{Quota, QuotaTree, Violations, tree::ancestor_path};

/// Account of the controller that removes the content of a terminating namespace.
pub const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";

/// Quotas that Koordinator requires; they are never deleted.
const BUILT_IN: [&str; 3] = [names::SYSTEM_QUOTA, names::ROOT_QUOTA, names::DEFAULT_QUOTA];

/// Adds the reasons why the quota may not be deleted.
pub fn check(quota: &Quota, tree: &dyn QuotaTree, found: &mut Violations) {
    let (name, field) = (&*quota.name, Path::new("metadata").child("name"));
    if BUILT_IN.contains(&name) {
        found.push(&field, name, format!("can not delete quotaGroup :{name}"));
        return;
    }
    // Children and pods belong to the oldest quota with the name.
    if tree.by_name(name).is_some_and(|other| !other.is_same(quota)) {
        return;
    }
    let children = children(quota, tree);
    if children > 0 {
        let text = format!("delete quota failed, quota {name} has {children} child quotas");
        found.push(&field, name, text);
    }
    let pods = tree.bound_pods(quota);
    if pods.count > 0 {
        let text = format!(
            "delete quota failed, quota {name} has {} child pods: {}",
            pods.count,
            pods.names()
        );
        found.push(&field, name, text);
    }
}

/// Number of other quotas with this quota as their parent. A child that is also above the quota does not count: of
/// quotas above each other, each is a child, and none could ever be removed.
pub fn children(quota: &Quota, tree: &dyn QuotaTree) -> usize {
    let above = ancestor_path(quota, tree).names;
    let mut count = 0_usize;
    tree.visit_children(&quota.name, &mut |child| {
        let is_above = child.parent == quota.name && above.contains(&child.name);
        if !child.is_same(quota) && !is_above {
            count = count.saturating_add(1);
        }
    });
    count
}
