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

/// The quotas above one, the nearest first, and where the way ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayUp {
    /// Their names; the last one is missing, or was there before, if the way ends so.
    pub names: Vec<Box<str>>,
    /// Where it ends.
    pub end: WayEnd,
}

/// Where the way up from a quota ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayEnd {
    /// At the first of all.
    Root,
    /// At a parent that is not there.
    Orphan,
    /// At a quota that it has passed already, or began at.
    Cycle,
    /// After so many that nobody looked further.
    TooLong,
}

impl WayEnd {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Orphan => "orphan",
            Self::Cycle => "cycle",
            Self::TooLong => "too-long",
        }
    }
}

/// Walks up from a quota by the parents that are to hold, [`MOST_LEVELS`] of them at most.
pub fn way_up(quota: &Quota, tree: &dyn QuotaTree) -> WayUp {
    let mut passed: Vec<Box<str>> = Vec::new();
    let (mut seen, mut parent) = (BTreeSet::from([quota.name.clone()]), quota.parent.clone());
    let end = loop {
        if parent.is_empty() || *parent == *names::ROOT_QUOTA {
            break WayEnd::Root;
        }
        if passed.len() >= MOST_LEVELS {
            break WayEnd::TooLong;
        }
        passed.push(parent.clone());
        if !seen.insert(parent.clone()) {
            break WayEnd::Cycle;
        }
        let Some(above) = tree.by_name(&parent) else {
            break WayEnd::Orphan;
        };
        parent.clone_from(&above.parent);
    };
    WayUp { names: passed, end }
}
