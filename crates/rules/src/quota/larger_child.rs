//! Finds children whose `max` exceeds that of their parent: without a check of the ancestors, their pods may use more
//! than the parent allows.

use headroom_domain::{field::Path, quantity::Quantity};

use super::{Quota, QuotaTree};
use crate::slo::decode::shortened;

/// Returns a warning if `max` of the quota exceeds its parent's, and one if that of a child exceeds the quota's. Each
/// names the first such resource.
pub fn find(quota: &Quota, tree: &dyn QuotaTree) -> Vec<String> {
    let parent = tree.by_name(&quota.parent).filter(|_| !quota.is_first_level());
    let above = parent.and_then(|parent| {
        let (key, own, most) = larger(quota, &parent)?;
        let parent = shortened(&parent.name);
        Some(text(
            key,
            &format!("{own} is more than {most} of parent {parent}"),
        ))
    });
    let mut below = None;
    tree.visit_children(&quota.name, &mut |child| {
        if below.is_none()
            && !child.is_same(quota)
            && let Some((key, most, own)) = larger(child, quota)
        {
            let child = shortened(&child.name);
            below = Some(text(key, &format!("{own} is less than {most} of child {child}")));
        }
    });
    above.into_iter().chain(below).collect()
}

/// Returns the first resource of which `child` may use more than `parent`, with both amounts.
fn larger<'q>(child: &'q Quota, parent: &'q Quota) -> Option<(&'q str, &'q Quantity, &'q Quantity)> {
    let mut both = child
        .max
        .iter()
        .filter_map(|(key, own)| Some((key, own, parent.max.get(key)?)));
    both.find(|(_, own, most)| own > most)
}

fn text(key: &str, comparison: &str) -> String {
    let field = Path::new("spec").child("max").key(&shortened(key));
    format!(
        "{field}: {comparison}; pods are checked against their own quota only (QuotaLimitsAncestors is off)"
    )
}
