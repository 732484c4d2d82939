//! [`QuotaIndex`]: all quotas as the watch brought them, with what this replica admitted on top until the watch shows it.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use headroom_rules::quota::{Quota, QuotaKey};
use tokio::time::Instant;

use super::{
    claims::{AdmittedQuota, QuotaClaims, Shown},
    derived::{Aged, Derived},
    object::WatchedQuota,
};
use crate::store::{
    arrivals::Arrivals,
    claims::Claim,
    informer::{self, Store},
    metrics,
};

/// A watch that fails for so long may miss what matters.
const FAILING_LIMIT: Duration = Duration::from_secs(15);

/// When an object was created that is not stored yet: after all others.
const NOT_YET: &str = "~";

/// All quotas.
#[derive(Debug)]
pub struct QuotaIndex {
    arrivals: Arrivals,
    state: RwLock<IndexState>,
    /// What the scheduler has noted of the pods of each quota, which it does each second.
    noted_use: RwLock<HashMap<QuotaKey, Box<str>>>,
    /// Changes of anything that is kept.
    writes: AtomicU64,
    this: Weak<QuotaIndex>,
}

/// A list that is being received.
#[derive(Debug, Default)]
pub struct QuotaListing {
    quotas: HashMap<QuotaKey, StoredQuota>,
    noted_use: HashMap<QuotaKey, Box<str>>,
}

#[derive(Debug, Clone)]
struct StoredQuota {
    aged: Aged,
    uid: Box<str>,
    version: u64,
}

/// What is stored, what is claimed, and both together.
#[derive(Debug, Default)]
pub(super) struct IndexState {
    stored: HashMap<QuotaKey, StoredQuota>,
    claims: QuotaClaims,
    pub(super) derived: Derived,
}

/// Ends a claim, unless it is kept.
struct ClaimHandle {
    index: Arc<QuotaIndex>,
    key: QuotaKey,
    number: u64,
    is_kept: bool,
}

impl QuotaIndex {
    /// No quotas; those that come are told to who waits for one.
    pub fn new(arrivals: Arrivals) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            arrivals,
            state: RwLock::default(),
            noted_use: RwLock::default(),
            writes: AtomicU64::new(0),
            this: Weak::clone(this),
        })
    }

    /// How many quotas there are, those included that were admitted and not seen.
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

    /// How many claims there are.
    pub fn claims(&self) -> usize {
        self.write().claims.len()
    }

    /// How often anything that is kept has changed.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Drops everything.
    pub fn clear(&self) {
        *self.write() = IndexState::default();
        self.noted_use
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        self.publish();
    }

    /// What the scheduler has noted of the pods of a quota; empty for nothing.
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

    /// Looks at everything.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, IndexState> {
        let now = Instant::now();
        loop {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            if !state.claims.has_expired(now) {
                return state;
            }
            drop(state);
            drop(self.write());
        }
    }

    /// Changes everything. Claims that are too old have ended.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, IndexState> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for key in state.claims.expire(Instant::now()) {
            state.derive(&key);
        }
        state
    }

    /// Records what was admitted.
    pub(super) fn claim(
        &self,
        state: &mut IndexState,
        key: QuotaKey,
        admitted: AdmittedQuota,
    ) -> Option<Box<dyn Claim>> {
        // The API server creates nothing that is there. What waits for finalizers may be gone already.
        let stays = |stored: &StoredQuota| !stored.aged.quota.is_going;
        let is_there = state.stored.get(&key).is_some_and(stays) && !state.is_removal_claimed(&key);
        if admitted.version == 0 && is_there {
            return None;
        }
        let index = self.this.upgrade()?;
        let number = state.claims.insert(key.clone(), admitted, Instant::now());
        state.derive(&key);
        metrics::QUOTA_CLAIMS.with([]).set(to_gauge(state.claims.len()));
        Some(Box::new(ClaimHandle {
            index,
            key,
            number,
            is_kept: false,
        }))
    }

    fn end(&self, key: &QuotaKey, number: u64) {
        let mut state = self.write();
        state.claims.end(key, number);
        state.derive(key);
        drop(state);
        self.publish();
    }

    fn publish(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let state = self.read();
        metrics::QUOTAS.with([]).set(to_gauge(state.derived.len()));
        metrics::QUOTA_CLAIMS.with([]).set(to_gauge(state.claims.len()));
        drop(state);
        self.arrivals.notify();
    }
}

fn to_gauge(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

impl IndexState {
    /// True once a removal was admitted, or a change of what is being removed, that the watch does not show yet.
    pub(super) fn is_removal_claimed(&self, key: &QuotaKey) -> bool {
        let is_leaving = |admitted: &AdmittedQuota| admitted.is_removal || admitted.quota.is_going;
        self.claims.get(key).is_some_and(is_leaving)
    }

    /// Puts what is claimed of an object, or else what is stored of it, in its place.
    fn derive(&mut self, key: &QuotaKey) {
        let Self {
            stored,
            claims,
            derived,
        } = self;
        let stored = stored.get(key).map(|stored| &stored.aged);
        let aged = match (claims.get(key), stored) {
            (Some(admitted), stored) => Some(Aged {
                quota: beside(admitted, stored),
                created: stored.map_or_else(|| NOT_YET.into(), |stored| stored.created.clone()),
            }),
            (None, stored) => stored.cloned(),
        };
        match aged {
            Some(aged) => derived.put(aged),
            None => derived.remove(key),
        }
    }
}

/// What was admitted. Where that is a new object and another one of its name is stored, that one may be the one that stays.
fn beside(admitted: &AdmittedQuota, stored: Option<&Aged>) -> Arc<Quota> {
    let new = &admitted.quota;
    match stored.filter(|_| admitted.version == 0 && !admitted.is_removal) {
        None => Arc::clone(new),
        Some(Aged { quota, .. }) => {
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
        listing.quotas.insert(key, stored);
    }

    fn replace(&self, listing: QuotaListing) {
        let QuotaListing { quotas, noted_use } = listing;
        *self.noted_use.write().unwrap_or_else(PoisonError::into_inner) = noted_use;
        let mut state = self.write();
        state.stored = quotas;
        state.derived = Derived::default();
        let IndexState {
            stored,
            claims,
            derived,
        } = &mut *state;
        for (key, stored) in &*stored {
            claims.show(key, stored.shown());
            derived.put(stored.aged.clone());
        }
        claims.end_absent(|key| stored.contains_key(key));
        for key in state.claims.keys() {
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
            if is_same && state.claims.get(&key).is_none() {
                return;
            }
        }
        let mut state = self.write();
        state.claims.show(&key, stored.shown());
        state.stored.insert(key.clone(), stored);
        state.derive(&key);
        drop(state);
        self.publish();
    }

    fn delete(&self, object: WatchedQuota) {
        let stored = StoredQuota::new(&object);
        let key = stored.aged.quota.key();
        self.note_use(&key, None);
        let mut state = self.write();
        let shown = Shown {
            is_gone: true,
            ..stored.shown()
        };
        state.claims.show(&key, shown);
        state.stored.remove(&key);
        state.derive(&key);
        drop(state);
        self.publish();
    }

    /// What is there stays: whether it counts, its source says.
    fn set_known(&self, _is_known: bool) {}
}

impl StoredQuota {
    fn new(object: &WatchedQuota) -> Self {
        let metadata = &object.metadata;
        let created = metadata.creation_timestamp.as_ref();
        Self {
            aged: Aged {
                quota: Arc::new(object.parts().quota()),
                created: created.map(|time| time.0.to_string()).unwrap_or_default().into(),
            },
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            version: informer::version(object),
        }
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            uid: &self.uid,
            version: self.version,
            is_going: self.aged.quota.is_going,
            is_gone: false,
        }
    }
}

impl Claim for ClaimHandle {
    fn keep(mut self: Box<Self>) {
        self.is_kept = true;
        self.index.write().claims.keep(&self.key, self.number);
    }
}

impl Drop for ClaimHandle {
    fn drop(&mut self) {
        if !self.is_kept {
            self.index.end(&self.key, self.number);
        }
    }
}

impl fmt::Debug for ClaimHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimHandle")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
