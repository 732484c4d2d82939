//! Store of the requests of all pods, summed for their quotas: of pods with a label by the quota that it names, of
//! the others by namespace. Pods that this replica has admitted count immediately, before the watch delivers them.
//!
//! It has a watch of its own, because other stores keep CPU and memory alone; it is followed while quotas are evaluated.

mod controller_pace;
pub mod counting;
pub mod ledger;
pub mod object;
pub mod pending;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use headroom_domain::{amounts::Amounts, quantity::Quantity};
use headroom_rules::pod_quota::{Transformation, Usage, growth};

use self::{
    counting::QuotaCounting,
    ledger::{Ledger, summable},
    object::WatchedQuotaPod,
    pending::{AdmissionKey, NewPendingPod, PendingPods},
};
use crate::store::{
    arrivals::Arrivals,
    caller::ReviewCaller,
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
    counting: QuotaCounting,
    arrivals: Arrivals,
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
    admission: AdmissionKey,
    is_kept: bool,
}

impl QuotaPods {
    /// No pods, and none are known. Pods of controllers that others wait for are announced to `arrivals`.
    pub fn new(counting: QuotaCounting, arrivals: Arrivals) -> Arc<Self> {
        let state = QuotaPodsState {
            ledger: Ledger::new(counting),
            ..QuotaPodsState::default()
        };
        Arc::new_cyclic(|this| Self {
            state: Mutex::new(state),
            counting,
            arrivals,
            this: Weak::clone(this),
        })
    }

    /// Number of pods that are known, and of those that were admitted a moment ago.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.ledger.len(), state.pending.len())
    }

    /// Use of these groups of pods, pending admissions included; `None` while not all pods are known, or one of theirs
    /// cannot be read.
    pub fn sums(
        &self,
        groups: &[PodGroup],
        transformation: Transformation,
        now: Instant,
    ) -> Option<GroupUsage> {
        let mut state = self.lock();
        state.expire(now);
        let QuotaPodsState {
            is_known,
            ledger,
            pending,
        } = &*state;
        let is_known = *is_known
            && groups
                .iter()
                .all(|group| ledger.is_known(group, &BTreeSet::new()));
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
        state.ledger = Ledger::new(self.counting);
        state.pending.clear();
    }

    fn lock(&self) -> MutexGuard<'_, QuotaPodsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaPodsState {
    /// True while all pods that count in the quotas of a request are known, with the resources that these limit.
    fn knows(&self, request: &QuotaRequest) -> bool {
        let mut groups = request.levels.iter().flatten();
        self.is_known && groups.all(|group| self.ledger.is_known(group, &request.resources))
    }

    /// Ends admissions that have lasted long enough, and the count of pods that are overdue.
    fn expire(&mut self, now: Instant) {
        self.pending.expire(now);
        self.ledger.expire(now);
    }

    /// Use of other pods, for the resources that count.
    fn usage(&mut self, request: &QuotaRequest, now: Instant) -> Vec<Usage> {
        self.expire(now);
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
        state.knows(request).then(|| state.usage(request, now))
    }

    fn is_ahead(&self, pod: &PodName, controller: &str, now: Instant) -> bool {
        let mut state = self.lock();
        state.pending.expire(now);
        let pace = &mut state.pending.pace;
        let controller = pace.key(&pod.namespace, controller);
        controller.is_some_and(|controller| pace.check(controller, pod, now).is_err())
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
        if !state.knows(&request) {
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
            controller,
            caller,
            ..
        } = request;
        let requested = requested.filtered(|name, _| resources.contains(name));
        if requested.is_empty() {
            return Ok(None);
        }
        let controller = state.pending.pace.key(&pod.namespace, &controller);
        let new = NewPendingPod {
            uid,
            controller: controller.filter(|_| replaced == 0),
            group,
            requested: summable(requested),
            // No event would ever be later than a forged version.
            replaced: match caller {
                ReviewCaller::Verified => replaced,
                ReviewCaller::Unverified => replaced.min(state.ledger.newest()),
            },
            caller,
        };
        let admission = state.pending.add(pod, new, now)?;
        Ok(Some(Box::new(PendingPodHandle {
            pods,
            admission,
            is_kept: false,
        })))
    }
}

impl PendingAdmission for PendingPodHandle {
    /// The Pod counts until the watch delivers it, or for seconds.
    fn keep(mut self: Box<Self>) {
        self.is_kept = true;
    }
}

impl Drop for PendingPodHandle {
    fn drop(&mut self) {
        if !self.is_kept {
            self.pods.lock().pending.end(self.admission);
        }
    }
}

impl Store for QuotaPods {
    type Object = WatchedQuotaPod;
    type Listing = Ledger;

    fn fails_within(&self) -> Option<Duration> {
        Some(FAILING_LIMIT)
    }

    fn listing(&self) -> Ledger {
        Ledger::new(self.counting)
    }

    fn list(listing: &mut Ledger, object: WatchedQuotaPod) {
        listing.set(object);
    }

    fn list_unreadable(&self, listing: &mut Ledger, object: WatchedQuotaPod) {
        listing.set_unreadable(&object, Some(&self.lock().ledger));
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
        let Some((pod, uid)) = object.key() else { return };
        let namespace = &pod.namespace;
        let controller = pending
            .pace
            .key(namespace, object.controller().unwrap_or_default());
        let (is_new, now) = (!ledger.has(&pod, &uid), Instant::now());
        ledger.set(object);
        if let Some(controller) = controller.filter(|_| is_new) {
            pending.pace.note_seen(controller, now);
        }
        let ended = pending.deliver(&pod, |entry| ledger.shows(&pod, entry), now);
        drop(state);
        if ended && controller.is_some() {
            self.arrivals.notify();
        }
    }

    fn apply_unreadable(&self, object: WatchedQuotaPod) {
        self.lock().ledger.set_unreadable(&object, None);
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
