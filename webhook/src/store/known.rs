//! [`KnownSources`]: known state of each source of this replica by name, and a signal for requests that wait for an
//! object.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::sync::watch;

use super::{arrivals::Arrivals, informer::LastActivity, sources::Source};

/// Sources that are known. Clones share the state. None is followed at first.
#[derive(Debug, Clone, Default)]
pub struct KnownSources {
    followed: Arc<RwLock<BTreeMap<&'static str, watch::Receiver<bool>>>>,
    signs: Arc<RwLock<BTreeMap<&'static str, LastActivity>>>,
    arrivals: Arrivals,
}

impl KnownSources {
    /// Records that a source is followed, with the receiver of its known state.
    pub fn record(&self, source: &Source, is_known: watch::Receiver<bool>) {
        let mut followed = self.followed.write().unwrap_or_else(PoisonError::into_inner);
        followed.insert(source.name, is_known);
    }

    /// Records the place of a source's last activity.
    pub fn record_signs(&self, source: &Source, last_activity: LastActivity) {
        let mut signs = self.signs.write().unwrap_or_else(PoisonError::into_inner);
        signs.insert(source.name, last_activity);
    }

    /// Time since the API server's last activity for a source; `None` if the source is not followed.
    pub fn age(&self, source: &Source) -> Option<Duration> {
        let source = source.shares.unwrap_or(source);
        let signs = self.signs.read().unwrap_or_else(PoisonError::into_inner);
        let last_activity = signs.get(source.name).filter(|_| self.is_followed(source))?;
        Some(last_activity.get().elapsed())
    }

    /// Records that a source is not followed any more, which makes it unknown.
    pub fn forget(&self, source: &Source) {
        let mut followed = self.followed.write().unwrap_or_else(PoisonError::into_inner);
        followed.remove(source.name);
    }

    /// True if the source is followed already.
    pub fn is_followed(&self, source: &Source) -> bool {
        let followed = self.followed.read().unwrap_or_else(PoisonError::into_inner);
        followed.contains_key(source.name)
    }

    /// True while the source is followed and all of its objects are known.
    pub fn is_known(&self, source: &Source) -> bool {
        let followed = self.followed.read().unwrap_or_else(PoisonError::into_inner);
        followed
            .get(source.name)
            .is_some_and(|is_known| *is_known.borrow())
    }

    /// Receiver of the source's known state; `None` if the source is not followed.
    pub fn subscribe(&self, source: &Source) -> Option<watch::Receiver<bool>> {
        let followed = self.followed.read().unwrap_or_else(PoisonError::into_inner);
        followed.get(source.name).cloned()
    }

    /// Notifies waiting requests of a new object.
    pub fn notify(&self) {
        self.arrivals.notify();
    }

    /// Changes with each later object.
    pub fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    /// The signal itself, for the stores that objects come to.
    pub fn signal(&self) -> Arrivals {
        self.arrivals.clone()
    }
}
