//! [`Quota`]: the parts of an ElasticQuota that rules read.

use std::{borrow::Cow, collections::BTreeMap, iter::successors, sync::Arc};

use headroom_domain::{amounts::Amounts, names};
use serde::Deserialize;

use super::annotation;

/// Most versions of a quota that count, of those that may be stored.
pub const MOST_VERSIONS: usize = 8;

/// Namespace and name.
pub type QuotaKey = (Box<str>, Box<str>);

/// An ElasticQuota as rules see it.
#[expect(clippy::struct_excessive_bools, reason = "each is a label of its own")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quota {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name, which is to be the only one of the cluster.
    pub name: Box<str>,
    /// The name of its parent: the first of all if it has no label. Empty for that one alone.
    pub parent: Box<str>,
    /// Whether other quotas may be parts of it.
    pub is_parent: bool,
    /// Whether sums of `min` do not bind it.
    pub allows_force: bool,
    /// Whether it is the first of its tree.
    pub is_tree_root: bool,
    /// Its tree; empty for none.
    pub tree_id: Box<str>,
    /// What its pods are sure of.
    pub min: Amounts,
    /// What its pods get at most.
    pub max: Amounts,
    /// What Koordinator's scheduler guarantees; empty if that cannot be read.
    pub guaranteed: Amounts,
    /// The annotation with the limits of new pods, as it is written; empty if there is none.
    pub admission: Box<str>,
    /// The namespaces whose pods belong to it; none if the list cannot be read.
    pub namespaces: Vec<Box<str>>,
    /// True once its removal waits for finalizers.
    pub is_going: bool,
    /// What is stored, while this is admitted and may not be stored: either may come to hold.
    pub before: Option<Arc<Quota>>,
}

/// What a quota is made of.
#[derive(Debug, Clone, Default)]
pub struct QuotaParts {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// All annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its specification.
    pub spec: QuotaSpec,
    /// What its status says of use.
    pub status: QuotaStatus,
    /// True once its removal waits for finalizers.
    pub is_going: bool,
}

/// `spec` of an ElasticQuota.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QuotaSpec {
    /// What its pods are sure of.
    pub min: Option<Amounts>,
    /// What its pods get at most.
    pub max: Option<Amounts>,
}

/// `status` of an ElasticQuota.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QuotaStatus {
    /// What is used, as its last writer said.
    pub used: Option<Amounts>,
}

impl QuotaParts {
    /// The text of an annotation; empty if there is none.
    pub fn annotation(&self, key: &str) -> &str {
        self.annotations.get(key).map(String::as_str).unwrap_or_default()
    }

    /// The text of a label; empty if there is none.
    pub fn label(&self, key: &str) -> &str {
        self.labels.get(key).map(String::as_str).unwrap_or_default()
    }

    /// The name of the parent, which the first of all does not need.
    pub fn parent(&self) -> &str {
        match self.label(names::QUOTA_PARENT) {
            "" if self.name != names::ROOT_QUOTA => names::ROOT_QUOTA,
            parent => parent,
        }
    }

    /// The quota as rules see it.
    pub fn quota(&self) -> Quota {
        let is_true = |key: &str| self.label(key) == "true";
        let namespaces = annotation::names(self.annotation(names::QUOTA_NAMESPACES));
        let guaranteed = annotation::amounts(self.annotation(names::QUOTA_GUARANTEED));
        Quota {
            namespace: self.namespace.as_str().into(),
            name: self.name.as_str().into(),
            parent: self.parent().into(),
            is_parent: is_true(names::QUOTA_IS_PARENT),
            allows_force: is_true(names::QUOTA_ALLOW_FORCE_UPDATE),
            is_tree_root: is_true(names::QUOTA_IS_ROOT),
            tree_id: self.label(names::QUOTA_TREE_ID).into(),
            min: self.spec.min.clone().unwrap_or_default(),
            max: self.spec.max.clone().unwrap_or_default(),
            guaranteed: guaranteed.ok().flatten().unwrap_or_default(),
            admission: self.annotation(names::QUOTA_ADMISSION).into(),
            namespaces: namespaces
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
            is_going: self.is_going,
            before: None,
        }
    }
}

impl Quota {
    /// True if both are one object.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }

    /// Namespace and name.
    pub fn key(&self) -> QuotaKey {
        (self.namespace.clone(), self.name.clone())
    }

    /// What may be stored: this, and what it is to replace, of which that may be said again. The first few count.
    pub fn versions(&self) -> impl Iterator<Item = &Self> {
        successors(Some(self), |version| version.before.as_deref()).take(MOST_VERSIONS)
    }

    /// The most that its pods may come to be sure of.
    pub fn largest_min(&self) -> Cow<'_, Amounts> {
        let mut largest = Cow::Borrowed(&self.min);
        for version in self.versions().skip(1) {
            largest = Cow::Owned(largest.max(&version.min));
        }
        largest
    }

    /// The least that its pods may come to be sure of.
    pub fn smallest_min(&self) -> Cow<'_, Amounts> {
        let mut smallest = Cow::Borrowed(&self.min);
        for version in self.versions().skip(1) {
            let both = smallest.iter().filter_map(|(key, amount)| {
                let other = version.min.get(key)?;
                Some((key, *amount.min(other)))
            });
            let both = both.collect();
            smallest = Cow::Owned(both);
        }
        smallest
    }

    /// The same, without what comes after the first few versions.
    #[must_use]
    pub fn with_few_versions(&self) -> Self {
        let mut versions: Vec<Self> = self.versions().take(MOST_VERSIONS - 1).cloned().collect();
        let mut before = None;
        while let Some(version) = versions.pop() {
            before = Some(Arc::new(Self { before, ..version }));
        }
        before.map_or_else(|| self.clone(), |quota| (*quota).clone())
    }

    /// True if it is on the first level.
    pub fn is_first_level(&self) -> bool {
        *self.parent == *names::ROOT_QUOTA
    }
}
