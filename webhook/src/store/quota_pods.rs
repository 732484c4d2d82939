//! Store of what all pods ask for, summed for their quotas: of pods with a label by the quota that it names, of the others by
//! namespace. Pods that this replica has admitted count from then on, before the API server tells of them.
//!
//! It has a watch of its own, because other stores keep CPU and memory alone; it is followed while quotas are evaluated.

pub mod claims;
pub mod ledger;
pub mod object;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use headroom_rules::pod_quota::{Transformation, Usage};

use self::{
    claims::{ClaimedPods, NewClaim},
    ledger::{Ledger, summable},
    object::WatchedQuotaPod,
};
use crate::store::{
    claims::Claim,
    informer::Store,
    lookup::RoomLookup,
    room::{CountedPod, GroupUsage, PodGroup, PodName, RoomRequest},
};

/// A watch that fails for so long may miss what matters.
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
    claims: ClaimedPods,
}

/// A Pod that counts although it is not stored yet. It stops to count when this is dropped, unless it is kept.
#[derive(Debug)]
struct PodClaim {
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
        (state.ledger.len(), state.claims.len())
    }

    /// What these groups of pods have, claims included; `None` while not all pods are known.
    pub fn sums(
        &self,
        groups: &[PodGroup],
        transformation: Transformation,
        now: Instant,
    ) -> Option<GroupUsage> {
        let mut state = self.lock();
        state.claims.expire(now);
        let QuotaPodsState {
            is_known,
            ledger,
            claims,
        } = &*state;
        let mut sums = is_known.then(GroupUsage::default)?;
        for group in groups {
            let (stored, pods) = ledger.sum(group, transformation);
            sums.usage.stored.add(&stored);
            sums.pods = sums.pods.saturating_add(pods);
            for (pod, most) in claims.in_group(group) {
                let more = ledger.beyond(pod, group, most, transformation);
                sums.usage.claimed.add(&more);
                sums.claims = sums.claims.saturating_add(1);
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
        state.claims.clear();
    }

    fn lock(&self) -> MutexGuard<'_, QuotaPodsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaPodsState {
    fn usage(&mut self, request: &RoomRequest, now: Instant) -> Vec<Usage> {
        self.claims.expire(now);
        let Self { ledger, claims, .. } = self;
        let mut usage = Usage::default();
        let levels = request.levels.iter().map(|groups| {
            for group in groups {
                let sum = ledger.sum_without(&request.pod, group, request.transformation);
                usage.stored.add(&sum);
                for (pod, most) in claims.in_group(group).filter(|(pod, _)| **pod != request.pod) {
                    let more = ledger.beyond(pod, group, most, request.transformation);
                    usage.claimed.add(&more);
                }
            }
            usage.clone()
        });
        levels.collect()
    }
}

impl RoomLookup for QuotaPods {
    fn usage(&self, request: &RoomRequest, now: Instant) -> Option<Vec<Usage>> {
        let mut state = self.lock();
        state.is_known.then(|| state.usage(request, now))
    }

    fn claim(
        &self,
        request: RoomRequest,
        now: Instant,
        fits: &mut dyn FnMut(&[Usage]) -> bool,
    ) -> Option<Box<dyn Claim>> {
        let pods = self.this.upgrade()?;
        let mut state = self.lock();
        if !state.is_known {
            return None;
        }
        let usage = state.usage(&request, now);
        if !fits(&usage) {
            return None;
        }
        let RoomRequest {
            pod,
            uid,
            group,
            requested,
            replaced,
            ..
        } = request;
        let new = NewClaim {
            uid,
            group,
            requested: summable(requested),
            replaced,
        };
        let number = state.claims.add(pod, new, now);
        Some(Box::new(PodClaim {
            pods,
            number,
            is_kept: false,
        }))
    }
}

impl Claim for PodClaim {
    /// The Pod counts until the API server tells of it, or half a minute has passed.
    fn keep(mut self: Box<Self>) {
        self.is_kept = true;
    }
}

impl Drop for PodClaim {
    fn drop(&mut self) {
        if !self.is_kept {
            self.pods.lock().claims.end(self.number);
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
        let QuotaPodsState { ledger, claims, .. } = &mut *state;
        claims.retain(|pod, claim| !ledger.shows(pod, claim));
    }

    fn apply(&self, object: WatchedQuotaPod) {
        let mut state = self.lock();
        let QuotaPodsState { ledger, claims, .. } = &mut *state;
        let Some(pod) = ledger.set(object) else { return };
        claims.end_if(&pod, |claim| ledger.shows(&pod, claim));
    }

    fn delete(&self, object: WatchedQuotaPod) {
        let mut state = self.lock();
        let Some((pod, uid)) = object.key() else { return };
        state.ledger.remove(&pod);
        state.claims.end_if(&pod, |claim| claim.uid == uid);
    }

    fn set_known(&self, is_known: bool) {
        self.lock().is_known = is_known;
    }
}

#[cfg(test)]
mod tests;
