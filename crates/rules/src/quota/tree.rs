//! [`QuotaTree`]: access to all quotas, and walks that terminate for any stored tree.

use std::{collections::BTreeSet, sync::Arc};

use headroom_domain::names;

use super::{BoundPods, Quota};

/// Maximum number of levels of a tree.
pub const MOST_LEVELS: usize = 64;

/// All quotas known to this replica.
pub trait QuotaTree {
    /// Returns the quota with this name; the oldest one if several namespaces have one.
    fn by_name(&self, name: &str) -> Option<Arc<Quota>>;

    /// Number of quotas with this name. The rules allow one, but races can create more.
    fn count_named(&self, name: &str) -> usize;

    /// Returns the quota with this namespace and name.
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Quota>>;

    /// Visits the quotas with this parent by name, including those whose stored version may have it.
    fn visit_children(&self, parent: &str, visit: &mut dyn FnMut(&Quota));

    /// Returns the quota that lists a namespace; the oldest one if several do.
    fn owner(&self, namespace: &str) -> Option<Arc<Quota>>;

    /// Returns true if its deletion was admitted or waits for finalizers: it may not get new children.
    fn is_leaving(&self, quota: &Quota) -> bool;

    /// Returns the pods of a quota.
    fn bound_pods(&self, quota: &Quota) -> BoundPods;
}

/// Ancestors of a quota, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestry {
    /// True if the quota is its own ancestor.
    pub has_itself: bool,
    /// Number of ancestors without the root quota.
    pub levels: usize,
}

/// Walks up from the parent of a quota over all possible versions of its ancestors. A cycle without the quota ends
/// the walk.
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

/// Path from a quota to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AncestorPath {
    /// Names of the ancestors, nearest first; the last one is missing or repeated, depending on `end`.
    pub names: Vec<Box<str>>,
    /// Reason why the path ends.
    pub end: PathEnd,
}

/// Reasons why the path from a quota to the root ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEnd {
    /// The path reached the root quota.
    Root,
    /// A parent does not exist.
    Orphan,
    /// The path reached a quota that it contains already.
    Cycle,
    /// The path has more than [`MOST_LEVELS`] ancestors.
    TooLong,
}

impl PathEnd {
    /// Name in output and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Orphan => "orphan",
            Self::Cycle => "cycle",
            Self::TooLong => "too-long",
        }
    }
}

/// Walks up from a quota over the newest versions of its ancestors, at most [`MOST_LEVELS`] of them.
pub fn ancestor_path(quota: &Quota, tree: &dyn QuotaTree) -> AncestorPath {
    let mut passed: Vec<Box<str>> = Vec::new();
    let (mut seen, mut parent) = (BTreeSet::from([quota.name.clone()]), quota.parent.clone());
    let end = loop {
        if parent.is_empty() || *parent == *names::ROOT_QUOTA {
            break PathEnd::Root;
        }
        if passed.len() >= MOST_LEVELS {
            break PathEnd::TooLong;
        }
        passed.push(parent.clone());
        if !seen.insert(parent.clone()) {
            break PathEnd::Cycle;
        }
        let Some(above) = tree.by_name(&parent) else {
            break PathEnd::Orphan;
        };
        parent.clone_from(&above.parent);
    };
    AncestorPath { names: passed, end }
}
