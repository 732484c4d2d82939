//! [`Quota`]: the fields of an ElasticQuota that rules read.

use std::{borrow::Cow, collections::BTreeMap, iter::successors, sync::Arc};

use headroom_domain::{amounts::Amounts, names};
use serde::Deserialize;

use super::annotation;

/// Maximum number of possibly stored versions of a quota that rules consider.
pub const MOST_VERSIONS: usize = 8;

/// Namespace and name of a quota.
pub type QuotaKey = (Box<str>, Box<str>);

/// ElasticQuota as rules read it.
#[expect(clippy::struct_excessive_bools, reason = "each is a label of its own")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quota {
    /// Namespace of the ElasticQuota object.
    pub namespace: Box<str>,
    /// Name of the quota, which should be unique in the cluster.
    pub name: Box<str>,
    /// Name of the parent: the root quota if there is no label. Empty only for the root quota.
    pub parent: Box<str>,
    /// True if other quotas may be children of it.
    pub is_parent: bool,
    /// True if sums of `min` do not limit it.
    pub allows_force: bool,
    /// True if it is the root of its tree.
    pub is_tree_root: bool,
    /// ID of its tree; empty if there is none.
    pub tree_id: Box<str>,
    /// Amounts reserved for its pods (`spec.min`).
    pub min: Amounts,
    /// Maximum amounts of its pods (`spec.max`).
    pub max: Amounts,
    /// Amounts that Koordinator's scheduler guarantees; empty if the annotation cannot be read.
    pub guaranteed: Amounts,
    /// Annotation with the limits for new pods, as text; empty if there is none.
    pub admission: Box<str>,
    /// Namespaces whose pods belong to it; empty if the list cannot be read.
    pub namespaces: Vec<Box<str>>,
    /// True if it is being deleted and waits for finalizers.
    pub is_going: bool,
    /// The stored version, while this one is admitted and not yet stored: either may be the final one.
    pub before: Option<Arc<Quota>>,
}

/// Fields of an ElasticQuota object.
#[derive(Debug, Clone, Default)]
pub struct QuotaParts {
    /// Namespace of the ElasticQuota object.
    pub namespace: String,
    /// Name of the ElasticQuota object.
    pub name: String,
    /// All labels of the object.
    pub labels: BTreeMap<String, String>,
    /// All annotations of the object.
    pub annotations: BTreeMap<String, String>,
    /// Specification with `min` and `max`.
    pub spec: QuotaSpec,
    /// Status with the reported usage.
    pub status: QuotaStatus,
    /// True if it is being deleted and waits for finalizers.
    pub is_going: bool,
}

/// `spec` of an ElasticQuota, reduced to amounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QuotaSpec {
    /// Amounts reserved for its pods.
    pub min: Option<Amounts>,
    /// Maximum amounts of its pods.
    pub max: Option<Amounts>,
}

/// `status` of an ElasticQuota, reduced to usage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QuotaStatus {
    /// Usage according to the last writer of the status.
    pub used: Option<Amounts>,
}

impl QuotaParts {
    /// Value of an annotation; empty if it is absent.
    pub fn annotation(&self, key: &str) -> &str {
        self.annotations.get(key).map(String::as_str).unwrap_or_default()
    }

    /// Value of a label; empty if it is absent.
    pub fn label(&self, key: &str) -> &str {
        self.labels.get(key).map(String::as_str).unwrap_or_default()
    }

    /// Name of the parent; the default is the root quota, except for the root quota itself.
    pub fn parent(&self) -> &str {
        match self.label(names::QUOTA_PARENT) {
            "" if self.name != names::ROOT_QUOTA => names::ROOT_QUOTA,
            parent => parent,
        }
    }

    /// Converts the object into the form that rules read.
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
    /// Returns true if both have the same namespace and name.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }

    /// Namespace and name, for use as a map key.
    pub fn key(&self) -> QuotaKey {
        (self.namespace.clone(), self.name.clone())
    }

    /// Versions that may be stored: this one, the one that it replaces, and so on, at most [`MOST_VERSIONS`].
    pub fn versions(&self) -> impl Iterator<Item = &Self> {
        successors(Some(self), |version| version.before.as_deref()).take(MOST_VERSIONS)
    }

    /// Largest `min` of the versions that may be stored.
    pub fn largest_min(&self) -> Cow<'_, Amounts> {
        let mut largest = Cow::Borrowed(&self.min);
        for version in self.versions().skip(1) {
            largest = Cow::Owned(largest.max(&version.min));
        }
        largest
    }

    /// Smallest `min` of the versions that may be stored.
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

    /// Returns a copy with at most the first few versions.
    #[must_use]
    pub fn with_few_versions(&self) -> Self {
        let mut versions: Vec<Self> = self.versions().take(MOST_VERSIONS - 1).cloned().collect();
        let mut before = None;
        while let Some(version) = versions.pop() {
            before = Some(Arc::new(Self { before, ..version }));
        }
        before.map_or_else(|| self.clone(), |quota| (*quota).clone())
    }

    /// Returns true if its parent is the root quota.
    pub fn is_first_level(&self) -> bool {
        *self.parent == *names::ROOT_QUOTA
    }
}
