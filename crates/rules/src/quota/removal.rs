//! Checks of a removal: a quota that others need stays.

use headroom_domain::{field::Path, names};

use super::{Quota, QuotaTree, Violations};

/// The account of the controller that removes what is in a namespace that ends.
pub const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";

/// Quotas that Koordinator needs.
const BUILT_IN: [&str; 3] = [names::SYSTEM_QUOTA, names::ROOT_QUOTA, names::DEFAULT_QUOTA];

/// Adds why the quota may not go.
pub fn check(quota: &Quota, tree: &dyn QuotaTree, found: &mut Violations) {
    let (name, field) = (&*quota.name, Path::new("metadata").child("name"));
    if BUILT_IN.contains(&name) {
        found.push(&field, name, format!("can not delete quotaGroup :{name}"));
        return;
    }
    // What belongs to a name stays with the oldest quota that has it.
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

/// How many other quotas name this one as their parent.
pub fn children(quota: &Quota, tree: &dyn QuotaTree) -> usize {
    let mut count = 0_usize;
    tree.visit_children(&quota.name, &mut |child| {
        if !child.is_same(quota) {
            count = count.saturating_add(1);
        }
    });
    count
}
