//! Checks that what is guaranteed above a quota covers its `min`.

use std::collections::BTreeSet;

use headroom_domain::{amounts::Amounts, field::Path, names};

use super::{Quota, QuotaTree, Violations};

/// Adds what is wrong; nothing if `min` did not grow under the same parent.
///
/// The need of a quota is the larger of `min` and what is guaranteed to it. The need of its parent is the larger of that
/// parent's `min` and the sum of the need with what is guaranteed to the other parts. The first quota above whose guarantee
/// covers its need ends the walk.
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

/// Why nothing above covers it.
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
