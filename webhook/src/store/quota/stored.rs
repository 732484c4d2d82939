//! [`StoredQuotas`]: the quotas that the watch delivered, with the part of their lists of namespaces that counts.

use std::{collections::HashMap, sync::Arc};

use headroom_rules::quota::QuotaKey;
use tracing::warn;

use super::{
    derived::DatedQuota, listed_namespaces::ListedNamespaces, object::WatchedQuota, pending::ObservedVersion,
};
use crate::store::{informer, metrics};

#[derive(Debug, Clone)]
pub(super) struct StoredQuota {
    pub(super) aged: DatedQuota,
    pub(super) uid: Box<str>,
    pub(super) version: u64,
    /// Number of namespaces in its list that do not count.
    dropped: usize,
}

#[derive(Debug, Default)]
pub(super) struct StoredQuotas {
    quotas: HashMap<QuotaKey, StoredQuota>,
    listed: ListedNamespaces,
}

impl StoredQuotas {
    pub(super) fn get(&self, key: &QuotaKey) -> Option<&StoredQuota> {
        self.quotas.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&QuotaKey, &StoredQuota)> {
        self.quotas.iter()
    }

    /// Puts a quota in the place of the one of its key, with as much of its list of namespaces as the limits allow.
    pub(super) fn put(&mut self, key: QuotaKey, mut stored: StoredQuota) {
        let before = self.remove(&key);
        stored.dropped = self.listed.add(Arc::make_mut(&mut stored.aged.quota));
        if stored.dropped > before.map_or(0, |before| before.dropped) {
            metrics::QUOTA_LISTS_CUT.with([]).increment(1);
            warn!(
                namespace = &*key.0,
                quota = &*key.1,
                dropped = stored.dropped,
                "ElasticQuotas list too many namespaces: the last ones of this list do not count"
            );
        }
        self.quotas.insert(key, stored);
    }

    pub(super) fn remove(&mut self, key: &QuotaKey) -> Option<StoredQuota> {
        let before = self.quotas.remove(key)?;
        self.listed.remove(&before.aged.quota);
        Some(before)
    }
}

impl StoredQuota {
    pub(super) fn new(object: &WatchedQuota) -> Self {
        let metadata = &object.metadata;
        let created = metadata.creation_timestamp.as_ref();
        Self {
            aged: DatedQuota {
                quota: Arc::new(object.parts().quota()),
                created: created.map(|time| time.0.to_string()).unwrap_or_default().into(),
            },
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            version: informer::version(object),
            dropped: 0,
        }
    }

    pub(super) fn observed(&self) -> ObservedVersion<'_> {
        ObservedVersion {
            uid: &self.uid,
            version: self.version,
            is_going: self.aged.quota.is_going,
            is_gone: false,
        }
    }
}
