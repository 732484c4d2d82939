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

/// A store counts as unknown after so long without an object, a bookmark, a whole list or a watch that the API server
/// ended when it was asked to.
pub const UNKNOWN_AFTER: Duration = Duration::from_secs(90);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// When the API server last gave a sign of life of a resource, or when the waiting for the first one began. Clones share it.
#[derive(Debug, Clone)]
pub struct LastSign(Arc<Mutex<Instant>>);

impl Default for LastSign {
    /// The waiting begins.
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LastSign {
    /// When it was.
    pub fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// The signs of life of one resource. They begin with the first whole list.
pub(super) struct Life<'a, S: Store> {
    resource: &'static str,
    store: &'a S,
    is_known: watch::Sender<bool>,
    last_sign: LastSign,
    /// When following began to fail; `None` while it does not.
    failing: Mutex<Option<Instant>>,
}

impl<'a, S: Store> Life<'a, S> {
    /// No sign yet; whether the store is known is told to it and sent on.
    pub(super) fn new(
        resource: &'static str,
        store: &'a S,
        is_known: watch::Sender<bool>,
        last_sign: LastSign,
    ) -> Self {
        INFORMER_KNOWN.with([resource]).set(0.0);
        Self {
            resource,
            store,
            is_known,
            last_sign,
            failing: Mutex::new(None),
        }
    }

    /// Notes a sign of life.
    pub(super) fn sign(&self) {
        self.last_sign.note();
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = None;
        INFORMER_AGE.with([self.resource]).set(0.0);
        self.set_known(true);
    }

    /// Notes that following failed.
    pub(super) fn fail(&self) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.get_or_insert_with(Instant::now);
    }

    /// How long following has failed.
    fn failing_for(&self) -> Duration {
        let failing = *self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// When the last sign was, or when the waiting for the first one began.
    pub(super) fn last_sign(&self) -> Instant {
        self.last_sign.get()
    }

    /// Declares the store unknown whenever signs stay away for too long.
    pub(super) async fn watch(&self) -> Infallible {
        loop {
            sleep(LOOK_EVERY).await;
            let age = self.last_sign().elapsed();
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
            info!(resource = self.resource, "in step with the API server");
        } else {
            warn!(
                resource = self.resource,
                age = ?self.last_sign().elapsed(),
                "no sign of life from the API server, or no watch that works: counts as unknown, and nothing is lowered by it"
            );
        }
    }
}
