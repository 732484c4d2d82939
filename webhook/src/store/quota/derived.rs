//! [`Derived`]: quotas by namespace and name, with the relations that follow from them: names, parents and children,
//! listed namespaces. It cannot differ from the quotas, which are added and removed whole.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use headroom_rules::quota::{Quota, QuotaKey};

/// Age and place of a quota: the oldest one sorts first, and equally old ones by namespace and name.
///
/// A quota shares one for all namespaces that it lists.
type Rank = Arc<(Box<str>, Box<str>, Box<str>)>;

/// A quota, and when it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DatedQuota {
    pub(super) quota: Arc<Quota>,
    /// Creation time as Kubernetes writes it, which sorts as text. A quota that is not stored yet sorts last.
    pub(super) created: Box<str>,
}

/// Object whose rules read the quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// A quota, which must fit all others that may be stored.
    Quota,
    /// A pod. Reviews of unverified callers count for no pod: any client could change another team's quota by one.
    Pod,
}

/// A quota, and what pods see instead of it.
#[derive(Debug, PartialEq, Eq)]
struct DerivedQuota {
    dated: DatedQuota,
    of_pods: SeenByPods,
}

/// The quota that pods belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SeenByPods {
    /// The derived one.
    Derived,
    /// The stored one, if there is one.
    Stored(Option<Arc<Quota>>),
}

/// Quotas, and the relations between them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Derived {
    quotas: HashMap<QuotaKey, DerivedQuota>,
    /// Sorted keys, for readers of single pages.
    order: BTreeSet<QuotaKey>,
    names: HashMap<Box<str>, BTreeSet<Rank>>,
    /// Names and namespaces of the parts, by the name of the parent.
    children: HashMap<Box<str>, BTreeSet<QuotaKey>>,
    owners: HashMap<Box<str>, BTreeSet<Rank>>,
}

impl Derived {
    /// Puts a quota in the place of the one of its key.
    pub(super) fn put(&mut self, dated: DatedQuota, of_pods: SeenByPods) {
        let key = dated.quota.key();
        self.remove(&key);
        let entry = DerivedQuota { dated, of_pods };
        let (rank, quota) = (entry.dated.rank(), Arc::clone(&entry.dated.quota));
        self.names
            .entry(quota.name.clone())
            .or_default()
            .insert(Arc::clone(&rank));
        for version in entry.versions() {
            let place = (quota.name.clone(), quota.namespace.clone());
            self.children
                .entry(version.parent.clone())
                .or_default()
                .insert(place);
            for namespace in &version.namespaces {
                self.owners
                    .entry(namespace.clone())
                    .or_default()
                    .insert(Arc::clone(&rank));
            }
        }
        self.order.insert(key.clone());
        self.quotas.insert(key, entry);
    }

    /// Removes the quota of a key.
    pub(super) fn remove(&mut self, key: &QuotaKey) {
        let Some(entry) = self.quotas.remove(key) else {
            return;
        };
        self.order.remove(key);
        let (rank, quota) = (entry.dated.rank(), &entry.dated.quota);
        drop_from(&mut self.names, &quota.name, &rank);
        let place = (quota.name.clone(), quota.namespace.clone());
        for version in entry.versions() {
            drop_from(&mut self.children, &version.parent, &place);
            for namespace in &version.namespaces {
                drop_from(&mut self.owners, namespace, &rank);
            }
        }
    }

    /// The quota of a key.
    pub(super) fn get(&self, key: &QuotaKey, reader: Reader) -> Option<&Arc<Quota>> {
        let entry = self.quotas.get(key)?;
        match (reader, &entry.of_pods) {
            (Reader::Pod, SeenByPods::Stored(stored)) => stored.as_ref(),
            (Reader::Pod, SeenByPods::Derived) | (Reader::Quota, _) => Some(&entry.dated.quota),
        }
    }

    /// The oldest quota of a name.
    pub(super) fn by_name(&self, name: &str, reader: Reader) -> Option<&Arc<Quota>> {
        self.ranked(self.names.get(name)?, reader).next()
    }

    /// Number of quotas with that name.
    pub(super) fn count_named(&self, name: &str, reader: Reader) -> usize {
        let ranks = self.names.get(name);
        ranks.map_or(0, |ranks| self.ranked(ranks, reader).count())
    }

    /// The oldest quota that lists a namespace.
    pub(super) fn owner(&self, namespace: &str, reader: Reader) -> Option<&Arc<Quota>> {
        let is_its = |quota: &&Arc<Quota>| {
            let mut listed = quota.versions().flat_map(|version| &version.namespaces);
            !self.differs_for_pods(&quota.key()) || listed.any(|listed| **listed == *namespace)
        };
        self.ranked(self.owners.get(namespace)?, reader).find(is_its)
    }

    /// The quotas that name this parent, by name.
    pub(super) fn children(&self, parent: &str, reader: Reader) -> impl Iterator<Item = &Arc<Quota>> {
        let places = self.children.get(parent).into_iter().flatten();
        let quotas =
            places.filter_map(move |(name, namespace)| self.get(&(namespace.clone(), name.clone()), reader));
        quotas.filter(move |quota| {
            let mut versions = quota.versions();
            !self.differs_for_pods(&quota.key()) || versions.any(|version| *version.parent == *parent)
        })
    }

    /// True if relations of a quota come from two sources, each with relations of its own.
    fn differs_for_pods(&self, key: &QuotaKey) -> bool {
        let entry = self.quotas.get(key);
        entry.is_some_and(|entry| entry.of_pods != SeenByPods::Derived)
    }

    /// Some quotas by namespace and name, those after that key.
    pub(super) fn after(&self, key: &QuotaKey, most: usize) -> Vec<Arc<Quota>> {
        let keys = self.order.range((Bound::Excluded(key), Bound::Unbounded));
        keys.take(most)
            .filter_map(|key| self.get(key, Reader::Quota).map(Arc::clone))
            .collect()
    }

    /// All quotas of a name, by namespace.
    pub(super) fn named(&self, name: &str) -> Vec<Arc<Quota>> {
        let ranks = self.names.get(name).into_iter().flatten();
        let mut keys: Vec<QuotaKey> = ranks.map(|rank| (rank.1.clone(), rank.2.clone())).collect();
        keys.sort_unstable();
        keys.iter()
            .filter_map(|key| self.get(key, Reader::Quota).map(Arc::clone))
            .collect()
    }

    /// Number of quotas.
    pub(super) fn len(&self) -> usize {
        self.quotas.len()
    }

    fn ranked<'d>(
        &'d self,
        ranks: &'d BTreeSet<Rank>,
        reader: Reader,
    ) -> impl Iterator<Item = &'d Arc<Quota>> {
        let keys = ranks.iter().map(|rank| (rank.1.clone(), rank.2.clone()));
        keys.filter_map(move |key| self.get(&key, reader))
    }
}

impl DerivedQuota {
    /// All versions with relations: those that may be stored, and the one that pods see.
    fn versions(&self) -> impl Iterator<Item = &Quota> {
        let stored = match &self.of_pods {
            SeenByPods::Derived => None,
            SeenByPods::Stored(stored) => stored.as_deref(),
        };
        let stored = stored.into_iter().flat_map(Quota::versions);
        self.dated.quota.versions().chain(stored)
    }
}

impl DatedQuota {
    fn rank(&self) -> Rank {
        let Quota { namespace, name, .. } = &*self.quota;
        Arc::new((self.created.clone(), namespace.clone(), name.clone()))
    }
}

fn drop_from<T: Ord>(sets: &mut HashMap<Box<str>, BTreeSet<T>>, key: &str, member: &T) {
    let Some(set) = sets.get_mut(key) else { return };
    set.remove(member);
    if set.is_empty() {
        sets.remove(key);
    }
}
