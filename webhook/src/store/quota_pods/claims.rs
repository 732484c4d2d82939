//! Pods that this replica has admitted and that it has not seen stored yet.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::{Duration, Instant},
};

use headroom_domain::amounts::Amounts;

use crate::store::room::{PodGroup, PodName};

/// How long a Pod counts of which the API server does not tell: somebody behind us has refused it, or it is gone again. The API
/// server gives a request a minute in all, and a webhook half of that at most.
pub const LASTS: Duration = Duration::from_secs(30);

/// An admitted Pod.
#[derive(Debug)]
pub(super) struct StoredClaim {
    pub(super) uid: Box<str>,
    pub(super) group: PodGroup,
    /// All that it asks for.
    pub(super) requested: Amounts,
    /// The resource version of the stored Pod that an update was to replace; 0 for a new one.
    pub(super) replaced: u64,
    made: Instant,
    number: u64,
}

/// A claim to be made.
#[derive(Debug)]
pub(super) struct NewClaim {
    pub(super) uid: Box<str>,
    pub(super) group: PodGroup,
    pub(super) requested: Amounts,
    pub(super) replaced: u64,
}

/// The admitted pods, one claim each.
#[derive(Debug, Default)]
pub(super) struct ClaimedPods {
    pods: HashMap<PodName, StoredClaim>,
    by_group: HashMap<PodGroup, BTreeSet<PodName>>,
    /// Every claim that was made in the last [`LASTS`], in the order of time.
    made: VecDeque<(Instant, PodName, u64)>,
    last_number: u64,
}

impl ClaimedPods {
    /// Number of claims.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// The claims of a group.
    pub(super) fn in_group(&self, group: &PodGroup) -> impl Iterator<Item = (&PodName, &StoredClaim)> {
        let pods = self.by_group.get(group).into_iter().flatten();
        pods.filter_map(|pod| self.pods.get_key_value(pod))
    }

    /// Adds a claim in place of one of the same name; returns its number, and that one.
    pub(super) fn add(&mut self, pod: PodName, new: NewClaim, now: Instant) -> (u64, Option<StoredClaim>) {
        let NewClaim {
            uid,
            group,
            requested,
            replaced,
        } = new;
        let before = self.end_if(&pod, |_| true);
        self.last_number += 1;
        let number = self.last_number;
        self.made.push_back((now, pod.clone(), number));
        let claim = StoredClaim {
            uid,
            group,
            requested,
            replaced,
            made: now,
            number,
        };
        self.insert(pod, claim);
        (number, before)
    }

    /// Ends the claim of that number in favour of the one before it, if it has not been replaced itself.
    pub(super) fn take_back(&mut self, pod: &PodName, number: u64, before: Option<StoredClaim>) {
        if self.end_if(pod, |claim| claim.number == number).is_some()
            && let Some(before) = before
        {
            // Its time may have come while it was replaced; nothing here is older.
            self.made.push_front((before.made, pod.clone(), before.number));
            self.insert(pod.clone(), before);
        }
    }

    /// Ends the claim of a Pod if `is_over` says so, and returns it.
    pub(super) fn end_if(
        &mut self,
        pod: &PodName,
        is_over: impl FnOnce(&StoredClaim) -> bool,
    ) -> Option<StoredClaim> {
        if !self.pods.get(pod).is_some_and(is_over) {
            return None;
        }
        let claim = self.pods.remove(pod)?;
        if let Some(pods) = self.by_group.get_mut(&claim.group) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_group.remove(&claim.group);
            }
        }
        Some(claim)
    }

    fn insert(&mut self, pod: PodName, claim: StoredClaim) {
        let pods = self.by_group.entry(claim.group.clone()).or_default();
        pods.insert(pod.clone());
        self.pods.insert(pod, claim);
    }

    /// Ends all claims but those that `stays` is true for.
    pub(super) fn retain(&mut self, stays: impl Fn(&PodName, &StoredClaim) -> bool) {
        let over = self.pods.iter().filter(|(pod, claim)| !stays(pod, claim));
        let over: Vec<PodName> = over.map(|(pod, _)| pod.clone()).collect();
        for pod in over {
            self.end_if(&pod, |_| true);
        }
    }

    /// Ends the claims that have lasted long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((made, ..)) = self.made.front()
            && now.saturating_duration_since(*made) >= LASTS
        {
            if let Some((_, pod, number)) = self.made.pop_front() {
                self.end_if(&pod, |claim| claim.number == number);
            }
        }
    }
}
