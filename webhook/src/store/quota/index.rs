//! [`QuotaIndex`]: all quotas from the watch, overlaid with this replica's admissions until the watch delivers them.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use headroom_rules::quota::{Quota, QuotaKey};
use tokio::time::Instant;

use super::{
    derived::{DatedQuota, Derived, Reader, SeenByPods},
    object::WatchedQuota,
    pending::{AdmittedQuota, ObservedVersion, PendingQuotas},
    pending_handle::PendingQuotaHandle,
    stored::{StoredQuota, StoredQuotas},
};
use crate::store::{
    arrivals::Arrivals, caller::ReviewCaller, informer::Store, metrics, pending_admissions::PendingAdmission,
};

/// A watch that fails for this time may miss relevant changes.
const FAILING_LIMIT: Duration = Duration::from_secs(15);

/// Creation time of an object that is not stored yet: after all others.
const NOT_YET: &str = "~";

#[derive(Debug)]
pub struct QuotaIndex {
    arrivals: Arrivals,
    state: RwLock<IndexState>,
    /// Use that the scheduler records for each quota's pods, which it updates every second.
    noted_use: RwLock<HashMap<QuotaKey, Box<str>>>,
    /// Changes of anything that is kept.
    writes: AtomicU64,
    this: Weak<QuotaIndex>,
}

/// A list that is being received.
#[derive(Debug, Default)]
pub struct QuotaListing {
    quotas: StoredQuotas,
    noted_use: HashMap<QuotaKey, Box<str>>,
}

/// Stored quotas, pending admissions, and the combination of both.
#[derive(Debug, Default)]
pub(super) struct IndexState {
    stored: StoredQuotas,
    pending: PendingQuotas,
    pub(super) derived: Derived,
    /// The highest resource version that the watch has delivered.
    newest: u64,
}

impl QuotaIndex {
    /// Empty index; new quotas are announced to `arrivals`.
    pub fn new(arrivals: Arrivals) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            arrivals,
            state: RwLock::default(),
            noted_use: RwLock::default(),
            writes: AtomicU64::new(0),
            this: Weak::clone(this),
        })
    }

    /// Number of quotas, including admitted ones that the watch has not delivered.
    pub fn len(&self) -> usize {
        self.read().derived.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some quotas by namespace and name, those after that key; both empty for the first ones.
    pub fn after(&self, key: &QuotaKey, most: usize) -> Vec<Arc<Quota>> {
        self.read().derived.after(key, most)
    }

    /// All quotas of a name, by namespace.
    pub fn named(&self, name: &str) -> Vec<Arc<Quota>> {
        self.read().derived.named(name)
    }

    /// The UID of a stored quota; `None` if it is not stored, as far as this replica has seen.
    pub fn uid(&self, key: &QuotaKey) -> Option<Box<str>> {
        self.read().stored.get(key).map(|stored| stored.uid.clone())
    }

    /// Number of pending admissions.
    pub fn pending(&self) -> usize {
        self.write().pending.len()
    }

    /// Number of changes of the kept state.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    pub fn clear(&self) {
        *self.write() = IndexState::default();
        self.noted_use
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        self.publish();
    }

    /// Use of a quota's pods that the scheduler recorded; empty if it recorded none.
    pub(super) fn noted_use(&self, key: &QuotaKey) -> Box<str> {
        let noted = self.noted_use.read().unwrap_or_else(PoisonError::into_inner);
        noted.get(key).cloned().unwrap_or_default()
    }

    fn note_use(&self, key: &QuotaKey, text: Option<Box<str>>) {
        let mut noted = self.noted_use.write().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => noted.insert(key.clone(), text),
            None => noted.remove(key),
        };
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, IndexState> {
        let now = Instant::now();
        loop {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            if !state.pending.has_expired(now) {
                return state;
            }
            drop(state);
            drop(self.write());
        }
    }

    /// Changes everything. Claims that are too old have ended.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, IndexState> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for key in state.pending.expire(Instant::now()) {
            state.derive(&key);
        }
        state
    }

    pub(super) fn admit(
        &self,
        state: &mut IndexState,
        key: QuotaKey,
        admitted: AdmittedQuota,
    ) -> Option<Box<dyn PendingAdmission>> {
        // The API server creates no existing object. An object that waits for finalizers may have been deleted
        // already.
        let stays = |stored: &StoredQuota| !stored.aged.quota.is_going;
        let is_there =
            state.stored.get(&key).is_some_and(stays) && !state.is_removal_claimed(&key, Reader::Quota);
        if admitted.version == 0 && is_there {
            return None;
        }
        let index = self.this.upgrade()?;
        let number = state
            .pending
            .insert(key.clone(), admitted, state.newest, Instant::now());
        state.derive(&key);
        metrics::QUOTA_CLAIMS.with([]).set(to_gauge(state.pending.len()));
        Some(Box::new(PendingQuotaHandle::new(index, key, number)))
    }

    /// Keeps a claim, and ends those on its object that were made before.
    pub(super) fn keep(&self, key: &QuotaKey, number: u64) {
        self.write().pending.keep(key, number);
    }

    /// Ends a claim.
    pub(super) fn end(&self, key: &QuotaKey, number: u64) {
        let mut state = self.write();
        state.pending.end(key, number);
        state.derive(key);
        drop(state);
        self.publish();
    }

    fn publish(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let state = self.read();
        metrics::QUOTAS.with([]).set(to_gauge(state.derived.len()));
        metrics::QUOTA_CLAIMS.with([]).set(to_gauge(state.pending.len()));
        drop(state);
        self.arrivals.notify();
    }
}

fn to_gauge(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

impl IndexState {
    /// Records that the watch has delivered a version.
    fn note_version(&mut self, version: u64) {
        self.newest = self.newest.max(version);
    }

    /// True once a removal was admitted, or a change of an object that is being removed, that the watch has not
    /// delivered.
    pub(super) fn is_removal_claimed(&self, key: &QuotaKey, reader: Reader) -> bool {
        self.pending.get(key).is_some_and(|admitted| {
            let counts = reader == Reader::Quota || admitted.caller == ReviewCaller::Verified;
            counts && (admitted.is_removal || admitted.quota.is_going)
        })
    }

    /// Derives the current quota from its pending admission, or else from the stored one.
    fn derive(&mut self, key: &QuotaKey) {
        let Self {
            stored,
            pending,
            derived,
            newest: _,
        } = self;
        let stored = stored.get(key).map(|stored| &stored.aged);
        match (pending.get(key), stored) {
            (Some(admitted), stored) => {
                let dated = DatedQuota {
                    quota: beside(admitted, stored),
                    created: stored.map_or_else(|| NOT_YET.into(), |stored| stored.created.clone()),
                };
                let of_pods = match admitted.caller {
                    ReviewCaller::Verified => SeenByPods::Derived,
                    ReviewCaller::Unverified => {
                        SeenByPods::Stored(stored.map(|stored| Arc::clone(&stored.quota)))
                    }
                };
                derived.put(dated, of_pods);
            }
            (None, Some(stored)) => derived.put(stored.clone(), SeenByPods::Derived),
            (None, None) => derived.remove(key),
        }
    }
}

/// Admitted quota. If it is a new object and another quota of its name is stored, the stored one may be the one that
/// remains.
fn beside(admitted: &AdmittedQuota, stored: Option<&DatedQuota>) -> Arc<Quota> {
    let new = &admitted.quota;
    match stored.filter(|_| admitted.version == 0 && !admitted.is_removal) {
        None => Arc::clone(new),
        Some(DatedQuota { quota, .. }) => {
            let stored = Quota {
                before: new.before.clone(),
                ..(**quota).clone()
            };
            Arc::new(Quota {
                before: Some(Arc::new(stored)),
                ..(**new).clone()
            })
        }
    }
}

impl Store for QuotaIndex {
    type Object = WatchedQuota;
    type Listing = QuotaListing;

    fn fails_within(&self) -> Option<Duration> {
        Some(FAILING_LIMIT)
    }

    fn list(listing: &mut QuotaListing, object: WatchedQuota) {
        let stored = StoredQuota::new(&object);
        let key = stored.aged.quota.key();
        if let Some(text) = object.noted_use() {
            listing.noted_use.insert(key.clone(), text);
        }
        listing.quotas.put(key, stored);
    }

    fn list_unreadable(&self, listing: &mut QuotaListing, object: WatchedQuota) {
        let key = object.key();
        let noted_use = self.noted_use(&key);
        if !noted_use.is_empty() {
            listing.noted_use.insert(key.clone(), noted_use);
        }
        match self.read().stored.get(&key) {
            Some(stored) => listing.quotas.put(key, stored.clone()),
            None => Self::list(listing, object),
        }
    }

    fn replace(&self, listing: QuotaListing) {
        let QuotaListing { quotas, noted_use } = listing;
        *self.noted_use.write().unwrap_or_else(PoisonError::into_inner) = noted_use;
        let mut state = self.write();
        state.stored = quotas;
        state.derived = Derived::default();
        let IndexState {
            stored,
            pending,
            derived,
            newest,
        } = &mut *state;
        for (key, stored) in stored.iter() {
            *newest = stored.version.max(*newest);
            pending.observe(key, stored.observed());
            derived.put(stored.aged.clone(), SeenByPods::Derived);
        }
        pending.end_absent(|key| stored.get(key).is_some());
        for key in state.pending.keys() {
            state.derive(&key);
        }
        drop(state);
        self.publish();
    }

    fn apply(&self, object: WatchedQuota) {
        let stored = StoredQuota::new(&object);
        let key = stored.aged.quota.key();
        self.note_use(&key, object.noted_use());
        {
            let state = self.read();
            let is_same = state
                .stored
                .get(&key)
                .is_some_and(|before| before.uid == stored.uid && before.aged == stored.aged);
            // A scheduler writes the status of each quota each second.
            if is_same && state.pending.get(&key).is_none() {
                return;
            }
        }
        let mut state = self.write();
        state.note_version(stored.version);
        state.pending.observe(&key, stored.observed());
        state.stored.put(key.clone(), stored);
        state.derive(&key);
        drop(state);
        self.publish();
    }

    /// Without a readable state it has its place in the tree and no amounts.
    fn apply_unreadable(&self, object: WatchedQuota) {
        if self.read().stored.get(&object.key()).is_none() {
            self.apply(object);
        }
    }

    fn delete(&self, object: WatchedQuota) {
        let stored = StoredQuota::new(&object);
        let key = stored.aged.quota.key();
        self.note_use(&key, None);
        let mut state = self.write();
        state.note_version(stored.version);
        let observed = ObservedVersion {
            is_gone: true,
            ..stored.observed()
        };
        state.pending.observe(&key, observed);
        state.stored.remove(&key);
        state.derive(&key);
        drop(state);
        self.publish();
    }

    /// The content stays: its source records whether it counts.
    fn set_known(&self, _is_known: bool) {}
}

#[cfg(test)]
mod tests;
