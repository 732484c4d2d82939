//! Store of the requests of all pods, summed for their quotas: of pods with a label by the quota that it names, of
//! the others by namespace. Pods that this replica has admitted count immediately, before the watch delivers them.
//!
//! It has a watch of its own, because other stores keep CPU and memory alone; it is followed while quotas are evaluated.

pub mod ledger;
pub mod object;
pub mod pending;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use headroom_domain::{amounts::Amounts, quantity::Quantity};
use headroom_rules::pod_quota::{Transformation, Usage, growth};

use self::{
    ledger::{Ledger, summable},
    object::WatchedQuotaPod,
    pending::{NewPendingPod, PendingPods},
};
use crate::store::{
    informer::Store,
    lookup::QuotaUsageLookup,
    pending_admissions::PendingAdmission,
    pending_limit::PendingLimit,
    quota_request::{CountedPod, GroupUsage, PodGroup, PodName, QuotaRequest},
};

/// A watch that fails for this time may miss relevant changes.
const FAILING_LIMIT: Duration = Duration::from_secs(15);

/// The sums of all pods, and the pods that were admitted a moment ago.
#[derive(Debug)]
pub struct QuotaPods {
    state: Mutex<QuotaPodsState>,
    this: Weak<QuotaPods>,
}

#[derive(Debug, Default)]
struct QuotaPodsState {
    is_known: bool,
    ledger: Ledger,
    pending: PendingPods,
}

/// A Pod that counts although it is not stored yet. It stops to count when this is dropped, unless it is kept.
#[derive(Debug)]
struct PendingPodHandle {
    pods: Arc<QuotaPods>,
    number: u64,
    is_kept: bool,
}

impl QuotaPods {
    /// No pods, and none are known.
    pub fn new() -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            state: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    /// Number of pods that are known, and of those that were admitted a moment ago.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.ledger.len(), state.pending.len())
    }

    /// Use of these groups of pods, pending admissions included; `None` while not all pods are known.
    pub fn sums(
        &self,
        groups: &[PodGroup],
        transformation: Transformation,
        now: Instant,
    ) -> Option<GroupUsage> {
        let mut state = self.lock();
        state.pending.expire(now);
        let QuotaPodsState {
            is_known,
            ledger,
            pending,
        } = &*state;
        let mut sums = is_known.then(GroupUsage::default)?;
        for group in groups {
            let pods = ledger.add_all(&mut sums.usage.stored, group, transformation);
            sums.pods = sums.pods.saturating_add(pods);
            for pending in pending.in_group(group) {
                let most = pending.most_of_each();
                let more = match ledger.requested_in(group, pending.pod, transformation) {
                    Some(stored) => growth(&most, stored),
                    None => most,
                };
                sums.usage.pending.add(&more);
                sums.pending = sums.pending.saturating_add(1);
            }
        }
        Some(sums)
    }

    /// A stored Pod as it counts; `None` if it is not known.
    pub fn counted(&self, pod: &PodName, transformation: Transformation) -> Option<CountedPod> {
        self.lock().ledger.get(pod, transformation)
    }

    /// Drops everything, and knows nothing.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.is_known = false;
        state.ledger = Ledger::default();
        state.pending.clear();
    }

    fn lock(&self) -> MutexGuard<'_, QuotaPodsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaPodsState {
    /// Use of other pods, for the resources that count.
    fn usage(&mut self, request: &QuotaRequest, now: Instant) -> Vec<Usage> {
        self.pending.expire(now);
        let mut stored = vec![Quantity::ZERO; request.resources.len()];
        let mut claimed = stored.clone();
        let named = |sums: &[Quantity]| -> Amounts {
            let named = request.resources.iter().zip(sums);
            let named = named.filter(|(_, sum)| !sum.is_zero());
            named.map(|(resource, sum)| (&**resource, *sum)).collect()
        };
        let levels = request.levels.iter().map(|groups| {
            for group in groups {
                self.ledger.add_others(&mut stored, group, request);
                self.add_claims(&mut claimed, group, request);
            }
            Usage {
                stored: named(&stored),
                pending: named(&claimed),
                ..Usage::default()
            }
        });
        levels.collect()
    }

    /// Adds the pending admissions of a group, without the Pod of the request itself.
    fn add_claims(&self, sums: &mut [Quantity], group: &PodGroup, request: &QuotaRequest) {
        let others = self.pending.in_group(group);
        for pending in others.filter(|pending| *pending.pod != request.pod) {
            let stored = self
                .ledger
                .requested_in(group, pending.pod, request.transformation);
            for (sum, resource) in sums.iter_mut().zip(&request.resources) {
                let stored = stored.and_then(|stored| stored.get(resource));
                let more = pending
                    .most(resource)
                    .checked_sub(stored.unwrap_or(&Quantity::ZERO));
                if let Some(more) = more.filter(|more| *more > Quantity::ZERO) {
                    *sum = sum.saturating_add(&more);
                }
            }
        }
    }
}

impl QuotaUsageLookup for QuotaPods {
    fn usage(&self, request: &QuotaRequest, now: Instant) -> Option<Vec<Usage>> {
        let mut state = self.lock();
        state.is_known.then(|| state.usage(request, now))
    }

    fn admit(
        &self,
        request: QuotaRequest,
        now: Instant,
        fits: &mut dyn FnMut(&[Usage]) -> bool,
    ) -> Result<Option<Box<dyn PendingAdmission>>, PendingLimit> {
        let Some(pods) = self.this.upgrade() else {
            return Ok(None);
        };
        let mut state = self.lock();
        if !state.is_known {
            return Ok(None);
        }
        let usage = state.usage(&request, now);
        if !fits(&usage) {
            return Ok(None);
        }
        let QuotaRequest {
            pod,
            uid,
            group,
            requested,
            replaced,
            resources,
            ..
        } = request;
        let requested = requested.filtered(|name, _| resources.contains(name));
        if requested.is_empty() {
            return Ok(None);
        }
        let new = NewPendingPod {
            uid,
            group,
            requested: summable(requested),
            replaced,
        };
        let number = state.pending.add(pod, new, now)?;
        Ok(Some(Box::new(PendingPodHandle {
            pods,
            number,
            is_kept: false,
        })))
    }
}

impl PendingAdmission for PendingPodHandle {
    /// The Pod counts until the watch delivers it, at most half a minute.
    fn keep(mut self: Box<Self>) {
        self.is_kept = true;
    }
}

impl Drop for PendingPodHandle {
    fn drop(&mut self) {
        if !self.is_kept {
            self.pods.lock().pending.end(self.number);
        }
    }
}

impl Store for QuotaPods {
    type Object = WatchedQuotaPod;
    type Listing = Ledger;

    fn fails_within(&self) -> Option<Duration> {
        Some(FAILING_LIMIT)
    }

    fn list(listing: &mut Ledger, object: WatchedQuotaPod) {
        listing.set(object);
    }

    fn replace(&self, listing: Ledger) {
        let mut state = self.lock();
        state.ledger = listing;
        let QuotaPodsState { ledger, pending, .. } = &mut *state;
        pending.retain(|pod, entry| !ledger.shows(pod, entry));
    }

    fn apply(&self, object: WatchedQuotaPod) {
        let mut state = self.lock();
        let QuotaPodsState { ledger, pending, .. } = &mut *state;
        let Some(pod) = ledger.set(object) else { return };
        pending.end_if(&pod, |entry| ledger.shows(&pod, entry));
    }

    fn delete(&self, object: WatchedQuotaPod) {
        let mut state = self.lock();
        let Some((pod, uid)) = object.key() else { return };
        state.ledger.remove(&pod);
        state.pending.end_if(&pod, |entry| entry.uid == uid);
    }

    fn set_known(&self, is_known: bool) {
        self.lock().is_known = is_known;
    }
}

#[cfg(test)]
mod tests;
