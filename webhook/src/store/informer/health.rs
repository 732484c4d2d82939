//! Marks a store as known or unknown by signs of life from the API server, because silence can be a dead watch.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::{info, warn};

use super::Store;
use crate::store::metrics::{INFORMER_AGE, INFORMER_KNOWN};

/// A store becomes unknown after this time without an object, a bookmark, a complete list or a regular end of a
/// watch.
pub const UNKNOWN_AFTER: Duration = Duration::from_secs(90);
/// Interval of that check.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time of the API server's last activity for a resource, or of the start of the wait for the first one. Clones share
/// it.
#[derive(Debug, Clone)]
pub struct LastActivity(Arc<Mutex<Instant>>);

impl Default for LastActivity {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LastActivity {
    pub fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// The signs of life of one resource. They begin with the first whole list.
pub(super) struct InformerHealth<'a, S: Store> {
    resource: &'static str,
    store: &'a S,
    is_known: watch::Sender<bool>,
    last_activity: LastActivity,
    /// Time at which following began to fail; `None` while it works.
    failing: Mutex<Option<Instant>>,
}

impl<'a, S: Store> InformerHealth<'a, S> {
    /// State before the first activity; whether the store is known is recorded in the store and sent on.
    pub(super) fn new(
        resource: &'static str,
        store: &'a S,
        is_known: watch::Sender<bool>,
        last_activity: LastActivity,
    ) -> Self {
        INFORMER_KNOWN.with([resource]).set(0.0);
        Self {
            resource,
            store,
            is_known,
            last_activity,
            failing: Mutex::new(None),
        }
    }

    /// Notes a sign of life.
    pub(super) fn record_activity(&self) {
        self.last_activity.note();
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = None;
        INFORMER_AGE.with([self.resource]).set(0.0);
        self.set_known(true);
    }

    pub(super) fn fail(&self) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.get_or_insert_with(Instant::now);
    }

    /// Time for which following has failed.
    fn failing_for(&self) -> Duration {
        let failing = *self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Time of the last activity, or of the start of the wait for the first one.
    pub(super) fn last_activity(&self) -> Instant {
        self.last_activity.get()
    }

    /// Declares the store unknown whenever signs stay away for too long.
    pub(super) async fn watch(&self) -> Infallible {
        loop {
            sleep(LOOK_EVERY).await;
            let age = self.last_activity().elapsed();
            INFORMER_AGE.with([self.resource]).set(age.as_secs_f64());
            let has_failed = self
                .store
                .fails_within()
                .is_some_and(|limit| self.failing_for() >= limit);
            if age >= UNKNOWN_AFTER || has_failed {
                self.set_known(false);
            }
        }
    }

    fn set_known(&self, is_known: bool) {
        if *self.is_known.borrow() == is_known {
            return;
        }
        self.store.set_known(is_known);
        self.is_known.send_replace(is_known);
        INFORMER_KNOWN
            .with([self.resource])
            .set(if is_known { 1.0 } else { 0.0 });
        if is_known {
            info!(resource = self.resource, "the watch is up to date");
        } else {
            warn!(
                resource = self.resource,
                age = ?self.last_activity().elapsed(),
                "no watch event for too long, or the watch keeps failing: counts as unknown, and lowers nothing"
            );
        }
    }
}
