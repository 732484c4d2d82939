//! [`ControllerPace`]: limits the admitted pods of a controller that are not stored yet by those that were stored lately.
//!
//! Controllers create pods in batches that double while they succeed, so one that sees its pods stored never meets the limit.
//! One whose pods are refused after us, or whose pods a slow watch does not show, is admitted one at a time.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
    time::Instant,
};

use crate::store::{
    pending_limit::{LASTS, PendingLimit},
    quota_request::PodName,
};

/// Identifies the controller of a namespace. Every user who may create pods chooses the UID, of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ControllerKey(u64);

#[derive(Debug, Default)]
pub(super) struct ControllerPace {
    hasher: RandomState,
    controllers: HashMap<ControllerKey, PodCounts>,
    /// Pods that the watch has shown for the first time within [`LASTS`].
    seen: VecDeque<(Instant, ControllerKey)>,
}

#[derive(Debug, Default)]
struct PodCounts {
    /// Admitted and not stored yet.
    pending: usize,
    /// Shown for the first time within [`LASTS`].
    seen: usize,
}

impl ControllerPace {
    /// The key of a controller in a namespace; `None` for an empty UID.
    pub(super) fn key(&self, namespace: &str, uid: &str) -> Option<ControllerKey> {
        (!uid.is_empty()).then(|| ControllerKey(self.hasher.hash_one((namespace, uid))))
    }

    /// Nothing pending and nothing seen, with keys as before.
    pub(super) fn emptied(self) -> Self {
        Self {
            hasher: self.hasher,
            ..Self::default()
        }
    }

    /// Checks that one more Pod may be admitted.
    ///
    /// # Errors
    /// The pending ones exceed those seen lately plus one.
    pub(super) fn check(
        &mut self,
        controller: ControllerKey,
        pod: &PodName,
        now: Instant,
    ) -> Result<(), PendingLimit> {
        self.forget(now);
        let Some(&PodCounts { pending, seen }) = self.controllers.get(&controller) else {
            return Ok(());
        };
        if pending <= seen.saturating_add(1) {
            return Ok(());
        }
        Err(PendingLimit::Controller {
            pod: format!("{}/{}", pod.namespace, pod.name),
            pending,
            seen,
        })
    }

    /// A Pod was admitted.
    pub(super) fn begin(&mut self, controller: ControllerKey) {
        let counts = self.controllers.entry(controller).or_default();
        counts.pending = counts.pending.saturating_add(1);
    }

    /// An admission has ended.
    pub(super) fn end(&mut self, controller: ControllerKey) {
        self.change(controller, |counts| {
            counts.pending = counts.pending.saturating_sub(1);
        });
    }

    /// The watch shows a Pod for the first time.
    pub(super) fn note_seen(&mut self, controller: ControllerKey, now: Instant) {
        self.forget(now);
        self.seen.push_back((now, controller));
        let counts = self.controllers.entry(controller).or_default();
        counts.seen = counts.seen.saturating_add(1);
    }

    /// Forgets pods that were seen too long ago.
    fn forget(&mut self, now: Instant) {
        while let Some(&(at, controller)) = self.seen.front()
            && at + LASTS <= now
        {
            self.seen.pop_front();
            self.change(controller, |counts| counts.seen = counts.seen.saturating_sub(1));
        }
    }

    fn change(&mut self, controller: ControllerKey, change: impl FnOnce(&mut PodCounts)) {
        if let Some(counts) = self.controllers.get_mut(&controller) {
            change(counts);
            if counts.pending == 0 && counts.seen == 0 {
                self.controllers.remove(&controller);
            }
        }
    }
}
