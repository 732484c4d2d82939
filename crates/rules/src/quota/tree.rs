//! [`QuotaTree`]: what rules ask of all quotas, and walks in it that end whatever is stored.

use std::{collections::BTreeSet, sync::Arc};

use headroom_domain::names;

use super::{BoundPods, Quota};

/// The most levels of a tree.
pub const MOST_LEVELS: usize = 64;

/// All quotas, as far as this replica knows.
pub trait QuotaTree {
    /// The quota of that name; the oldest one, if several namespaces have one.
    fn by_name(&self, name: &str) -> Option<Arc<Quota>>;

    /// How many quotas have that name. The rules allow one, and races can make them more.
    fn count_named(&self, name: &str) -> usize;

    /// The quota of that namespace and name.
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Quota>>;

    /// Visits the quotas that name this one as their parent, or did so and may do so again, by name.
    fn visit_children(&self, parent: &str, visit: &mut dyn FnMut(&Quota));

    /// The quota that lists a namespace; the oldest one, if several do.
    fn owner(&self, namespace: &str) -> Option<Arc<Quota>>;

    /// True once its removal was let through, or waits for finalizers: nothing new may become a part of it.
    fn is_leaving(&self, quota: &Quota) -> bool;

    /// The pods that belong to a quota.
    fn bound_pods(&self, quota: &Quota) -> BoundPods;
}

/// What is above a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestry {
    /// True if the quota itself is.
    pub has_itself: bool,
    /// How many quotas are above it, not counting the first of all.
    pub levels: usize,
}

/// Walks up from the parent of a quota, by every parent that a quota above may come to have. A cycle that the quota is not in ends the walk.
pub fn ancestry(quota: &Quota, tree: &dyn QuotaTree) -> Ancestry {
    let mut ancestry = Ancestry {
        has_itself: false,
        levels: 0,
    };
    let mut seen = BTreeSet::new();
    let mut level = vec![quota.parent.clone()];
    loop {
        level.retain(|parent| {
            !parent.is_empty() && **parent != *names::ROOT_QUOTA && seen.insert(parent.clone())
        });
        if level.is_empty() {
            return ancestry;
        }
        if level.contains(&quota.name) {
            ancestry.has_itself = true;
            return ancestry;
        }
        ancestry.levels += 1;
        let above = level.iter().filter_map(|parent| tree.by_name(parent));
        let parents = above.flat_map(|above| {
            let parents = above.versions().map(|version| version.parent.clone());
            parents.collect::<Vec<_>>()
        });
        level = parents.collect();
    }
}
