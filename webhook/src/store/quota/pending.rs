//! [`PendingQuotas`]: admissions of quotas by this replica that the watch has not delivered. A pending admission ends
//! when the watch delivers its result, when the answer was not sent, or when its time is over.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use headroom_domain::amounts::Amounts;
use headroom_rules::quota::{Quota, QuotaKey};
use tokio::time::Instant;

use crate::store::{caller::ReviewCaller, pending_limit::LASTS};

/// Time for which an admission counts that the watch does not deliver.
pub const LIFETIME: Duration = Duration::from_secs(30);

/// The most claims at a time. One more ends the one that expires first.
const MOST: usize = 4_096;
/// Most memory of all claims, in bytes; one more ends the one that expires first. Large quotas list thousands of namespaces.
const MOST_BYTES: usize = 8 << 20;
/// Memory of a claim, of a name in it and of an amount, besides the text, in bytes.
const CLAIM_BYTES: usize = 512;
const NAME_BYTES: usize = 32;
const AMOUNT_BYTES: usize = 96;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmittedQuota {
    /// UID of the object; empty if the API server set none.
    pub uid: Box<str>,
    /// The resource version of the object that it changes or removes; 0 for a new one.
    pub version: u64,
    /// Quota to be stored or removed.
    pub quota: Arc<Quota>,
    pub is_removal: bool,
    /// Client that posted the review.
    pub caller: ReviewCaller,
}

/// A version of an object that the watch shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservedVersion<'s> {
    pub(super) uid: &'s str,
    pub(super) version: u64,
    /// True while a removal waits for finalizers.
    pub(super) is_going: bool,
    /// True if it is its last one.
    pub(super) is_gone: bool,
}

#[derive(Debug)]
struct PendingQuota {
    admitted: AdmittedQuota,
    /// Identifies the admission.
    number: u64,
}

/// All claims, by object. The last one of an object counts; those before it are there in case its answer does not leave.
#[derive(Debug, Default)]
pub(super) struct PendingQuotas {
    pending: HashMap<QuotaKey, Vec<PendingQuota>>,
    /// In the order in which they expire; with some that ended before.
    expiries: BTreeSet<(Instant, u64, QuotaKey)>,
    /// Memory of those that have not ended.
    bytes: usize,
    numbers: u64,
}

impl PendingQuotas {
    /// Records an admission. The number keeps or ends it. `newest` is the highest version that the watch has delivered.
    pub(super) fn insert(
        &mut self,
        key: QuotaKey,
        admitted: AdmittedQuota,
        newest: u64,
        now: Instant,
    ) -> u64 {
        self.numbers = self.numbers.wrapping_add(1);
        let number = self.numbers;
        self.expiries
            .insert((now + admitted.lifetime(newest), number, key.clone()));
        self.bytes = self.bytes.saturating_add(admitted.bytes());
        let pending = self.pending.entry(key).or_default();
        pending.push(PendingQuota { admitted, number });
        number
    }

    /// Pending admission of an object.
    pub(super) fn get(&self, key: &QuotaKey) -> Option<&AdmittedQuota> {
        self.pending.get(key)?.last().map(|entry| &entry.admitted)
    }

    /// The objects that something is claimed of.
    pub(super) fn keys(&self) -> Vec<QuotaKey> {
        self.pending.keys().cloned().collect()
    }

    /// Number of objects with a pending admission.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// True if some claim is too old, or one is too many.
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        let first = self.expiries.first();
        let is_full = self.expiries.len() > MOST || self.bytes > MOST_BYTES;
        first.is_some_and(|(at, ..)| *at <= now || is_full)
    }

    /// Ends the claims on an object that were made before the one of that number.
    pub(super) fn keep(&mut self, key: &QuotaKey, number: u64) {
        let pending = self.pending.get(key).map(Vec::as_slice).unwrap_or_default();
        if pending.iter().any(|entry| entry.number == number) {
            self.retain(key, |entry| entry.number >= number);
        }
    }

    /// Ends the claim of that number.
    pub(super) fn end(&mut self, key: &QuotaKey, number: u64) {
        self.retain(key, |entry| entry.number != number);
    }

    /// Ends the pending admissions of an object whose result the watch delivers.
    pub(super) fn observe(&mut self, key: &QuotaKey, observed: ObservedVersion<'_>) {
        self.retain(key, |entry| !entry.admitted.is_settled_by(observed));
    }

    /// Ends claims on objects that are not there any more, by a complete list.
    pub(super) fn end_absent(&mut self, is_there: impl Fn(&QuotaKey) -> bool) {
        for key in self.keys() {
            // A new object may be younger than the list.
            let is_there = is_there(&key);
            self.retain(&key, |entry| is_there || entry.admitted.version == 0);
        }
    }

    /// Ends the claims that are too old, or too many, and gives the objects.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<QuotaKey> {
        let mut ended = Vec::new();
        while self.has_expired(now) {
            let Some((_, number, key)) = self.expiries.pop_first() else {
                break;
            };
            self.end(&key, number);
            ended.push(key);
        }
        ended
    }

    fn retain(&mut self, key: &QuotaKey, is_kept: impl Fn(&PendingQuota) -> bool) {
        if let Some(pending) = self.pending.get_mut(key) {
            for ended in pending.extract_if(.., |entry| !is_kept(entry)) {
                self.bytes = self.bytes.saturating_sub(ended.admitted.bytes());
            }
            if pending.is_empty() {
                self.pending.remove(key);
            }
        }
    }
}

impl AdmittedQuota {
    /// The longest time for which it counts. No event ends one with a forged version, so a version that the watch has
    /// not reached counts for seconds unless an API server sent it.
    fn lifetime(&self, newest: u64) -> Duration {
        if self.caller == ReviewCaller::Unverified && self.version > newest {
            LASTS
        } else {
            LIFETIME
        }
    }

    /// Memory, at most.
    fn bytes(&self) -> usize {
        let of_version = |quota: &Quota| {
            let names = quota.namespaces.iter().map(|name| name.len() + NAME_BYTES);
            let amounts = [&quota.min, &quota.max, &quota.guaranteed];
            let amounts = amounts.into_iter().flat_map(Amounts::iter);
            let amounts = amounts.map(|(name, _)| name.len() + AMOUNT_BYTES);
            quota.admission.len() + names.chain(amounts).sum::<usize>()
        };
        CLAIM_BYTES + self.quota.versions().map(of_version).sum::<usize>()
    }

    /// True if that version of the object, or its deletion, is the result of the admission.
    fn is_settled_by(&self, observed: ObservedVersion<'_>) -> bool {
        let is_other = !self.uid.is_empty() && !observed.uid.is_empty() && *self.uid != *observed.uid;
        let is_later = observed.version > self.version;
        match (self.is_removal, self.version) {
            // An event of an earlier object of the name says nothing about a new one or its changes.
            (false, 0) => !is_other,
            _ if is_other => is_later,
            (false, _) => observed.is_gone || is_later,
            // A later change of a quota that is being deleted also shows the deletion.
            (true, version) => observed.is_gone || (observed.is_going && observed.version >= version),
        }
    }
}
