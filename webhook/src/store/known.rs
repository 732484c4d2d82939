//! [`KnownSources`]: which sources of this replica are known, by the name of the source, and a signal for those who wait
//! for an object to come.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use tokio::sync::watch;

use super::sources::Source;

/// Which sources are known. Clones share everything.
#[derive(Debug, Clone)]
pub struct KnownSources {
    followed: Arc<RwLock<BTreeMap<&'static str, watch::Receiver<bool>>>>,
    arrivals: watch::Sender<u64>,
}

impl Default for KnownSources {
    /// None is followed.
    fn default() -> Self {
        Self {
            followed: Arc::default(),
            arrivals: watch::Sender::new(0),
        }
    }
}

impl KnownSources {
    /// Records that a source is followed; `is_known` says whether it is known, now and from then on.
    pub fn record(&self, source: &Source, is_known: watch::Receiver<bool>) {
        let mut followed = self.followed.write().unwrap_or_else(PoisonError::into_inner);
        followed.insert(source.name, is_known);
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

    /// Notifies those who wait that an object came.
    pub fn notify(&self) {
        self.arrivals.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Changes with each object that comes from now on.
    pub fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }
}
