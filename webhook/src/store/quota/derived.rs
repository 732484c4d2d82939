//! [`Derived`]: quotas by namespace and name, with the relations that follow from them: names, parents and children,
//! listed namespaces. It cannot differ from the quotas, which are added and removed whole.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use headroom_rules::quota::{Quota, QuotaKey};

/// Age and place of a quota: the oldest one sorts first, and equally old ones by namespace and name.
type Rank = (Box<str>, Box<str>, Box<str>);

/// A quota, and when it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DatedQuota {
    pub(super) quota: Arc<Quota>,
    /// Creation time as Kubernetes writes it, which sorts as text. A quota that is not stored yet sorts last.
    pub(super) created: Box<str>,
}

/// Quotas, and the relations between them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Derived {
    quotas: HashMap<QuotaKey, DatedQuota>,
    /// Sorted keys, for readers of single pages.
    order: BTreeSet<QuotaKey>,
    names: HashMap<Box<str>, BTreeSet<Rank>>,
    /// Names and namespaces of the parts, by the name of the parent.
    children: HashMap<Box<str>, BTreeSet<QuotaKey>>,
    owners: HashMap<Box<str>, BTreeSet<Rank>>,
}

impl Derived {
    /// Puts a quota in the place of the one of its key.
    pub(super) fn put(&mut self, aged: DatedQuota) {
        let key = aged.quota.key();
        self.remove(&key);
        let (rank, quota) = (aged.rank(), Arc::clone(&aged.quota));
        self.names
            .entry(quota.name.clone())
            .or_default()
            .insert(rank.clone());
        for version in quota.versions() {
            let place = (quota.name.clone(), quota.namespace.clone());
            self.children
                .entry(version.parent.clone())
                .or_default()
                .insert(place);
            for namespace in &version.namespaces {
                self.owners
                    .entry(namespace.clone())
                    .or_default()
                    .insert(rank.clone());
            }
        }
        self.order.insert(key.clone());
        self.quotas.insert(key, aged);
    }

    /// Removes the quota of a key.
    pub(super) fn remove(&mut self, key: &QuotaKey) {
        let Some(aged) = self.quotas.remove(key) else {
            return;
        };
        self.order.remove(key);
        let (rank, quota) = (aged.rank(), &aged.quota);
        drop_from(&mut self.names, &quota.name, &rank);
        let place = (quota.name.clone(), quota.namespace.clone());
        for version in quota.versions() {
            drop_from(&mut self.children, &version.parent, &place);
            for namespace in &version.namespaces {
                drop_from(&mut self.owners, namespace, &rank);
            }
        }
    }

    /// The quota of a key.
    pub(super) fn get(&self, key: &QuotaKey) -> Option<&Arc<Quota>> {
        self.quotas.get(key).map(|aged| &aged.quota)
    }

    /// The oldest quota of a name.
    pub(super) fn by_name(&self, name: &str) -> Option<&Arc<Quota>> {
        self.first(self.names.get(name)?)
    }

    /// Number of quotas with that name.
    pub(super) fn count_named(&self, name: &str) -> usize {
        self.names.get(name).map_or(0, BTreeSet::len)
    }

    /// The oldest quota that lists a namespace.
    pub(super) fn owner(&self, namespace: &str) -> Option<&Arc<Quota>> {
        self.first(self.owners.get(namespace)?)
    }

    /// The quotas that name this parent, by name.
    pub(super) fn children(&self, parent: &str) -> impl Iterator<Item = &Arc<Quota>> {
        let places = self.children.get(parent).into_iter().flatten();
        places.filter_map(|(name, namespace)| self.get(&(namespace.clone(), name.clone())))
    }

    /// Some quotas by namespace and name, those after that key.
    pub(super) fn after(&self, key: &QuotaKey, most: usize) -> Vec<Arc<Quota>> {
        let keys = self.order.range((Bound::Excluded(key), Bound::Unbounded));
        keys.take(most)
            .filter_map(|key| self.get(key).map(Arc::clone))
            .collect()
    }

    /// All quotas of a name, by namespace.
    pub(super) fn named(&self, name: &str) -> Vec<Arc<Quota>> {
        let ranks = self.names.get(name).into_iter().flatten();
        let mut keys: Vec<QuotaKey> = ranks
            .map(|(_, namespace, name)| (namespace.clone(), name.clone()))
            .collect();
        keys.sort_unstable();
        keys.iter()
            .filter_map(|key| self.get(key).map(Arc::clone))
            .collect()
    }

    /// Number of quotas.
    pub(super) fn len(&self) -> usize {
        self.quotas.len()
    }

    fn first(&self, ranks: &BTreeSet<Rank>) -> Option<&Arc<Quota>> {
        let (_, namespace, name) = ranks.first()?;
        self.get(&(namespace.clone(), name.clone()))
    }
}

impl DatedQuota {
    fn rank(&self) -> Rank {
        let Quota { namespace, name, .. } = &*self.quota;
        (self.created.clone(), namespace.clone(), name.clone())
    }
}

fn drop_from<T: Ord>(sets: &mut HashMap<Box<str>, BTreeSet<T>>, key: &str, member: &T) {
    let Some(set) = sets.get_mut(key) else { return };
    set.remove(member);
    if set.is_empty() {
        sets.remove(key);
    }
}
