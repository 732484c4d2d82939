//! Checks that the guarantees above a quota cover its `min`.

use std::collections::BTreeSet;

use headroom_domain::{amounts::Amounts, field::Path, names};

use super::{Quota, QuotaTree, Violations};

/// Adds the violations; none if `min` did not grow under the same parent.
///
/// The need of a quota is the larger of its `min` and its guarantee. The need of its parent is the larger of that
/// parent's `min` and the sum of this need and the guarantees of the other children. The walk ends at the first
/// ancestor whose guarantee covers its need.
pub fn check(new: &Quota, old: Option<&Quota>, tree: &dyn QuotaTree, found: &mut Violations) {
    let is_exempt = new.allows_force || new.tree_id.is_empty() || new.is_tree_root;
    if is_exempt || new.guaranteed.covers(&new.min) || old.is_some_and(|old| old.min.covers(&new.min)) {
        return;
    }
    if let Some(reason) = uncovered(new, tree) {
        let field = Path::new("spec").child("min");
        found.push(&field, new.min.to_string(), format!("{reason} {}", new.name));
    }
}

/// Returns the reason why no ancestor covers the need.
fn uncovered(new: &Quota, tree: &dyn QuotaTree) -> Option<String> {
    let mut need = new.min.max(&new.guaranteed);
    let (mut below, mut above) = (new.clone(), new.parent.clone());
    let mut seen = BTreeSet::from([new.name.clone()]);
    loop {
        if *above == *names::ROOT_QUOTA || above.is_empty() {
            return Some(format!("tree root quota {} can't guarantee for min", below.name));
        }
        let Some(parent) = tree.by_name(&above).filter(|_| seen.insert(above.clone())) else {
            return Some(format!("parent {above} not found"));
        };
        let mut sum: Amounts = need;
        tree.visit_children(&parent.name, &mut |other| {
            if !other.is_same(&below) {
                sum.add(&other.guaranteed);
            }
        });
        need = parent.min.max(&sum);
        if parent.guaranteed.covers(&need) {
            return None;
        }
        (above, below) = (parent.parent.clone(), (*parent).clone());
    }
}
