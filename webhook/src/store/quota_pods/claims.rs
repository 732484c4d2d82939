//! Pods that this replica has admitted and that it has not seen stored yet.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
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
    /// Tells it from the others.
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

/// The admitted pods. There may be several of one name, because a client has asked again: one of them at most is stored, and
/// nobody here knows which.
#[derive(Debug, Default)]
pub(super) struct ClaimedPods {
    pods: HashMap<PodName, Vec<StoredClaim>>,
    by_group: HashMap<PodGroup, BTreeSet<PodName>>,
    /// When each claim was made, and of what. Numbers grow with time.
    made: BTreeMap<u64, (Instant, PodName)>,
    last_number: u64,
}

impl ClaimedPods {
    /// Ends all claims. No number is given twice.
    pub(super) fn clear(&mut self) {
        *self = Self {
            last_number: self.last_number,
            ..Self::default()
        };
    }

    /// Number of names that something is claimed of.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// The names of a group, each with the most that a claim in that group asks for of each resource.
    pub(super) fn in_group(&self, group: &PodGroup) -> impl Iterator<Item = (&PodName, Amounts)> {
        let pods = self.by_group.get(group).into_iter().flatten();
        pods.map(move |pod| {
            let claims = self.pods.get(pod).into_iter().flatten();
            let claims = claims.filter(|claim| claim.group == *group);
            let most = claims.fold(Amounts::default(), |most, claim| most.max(&claim.requested));
            (pod, most)
        })
    }

    /// Adds a claim beside those of the same name; returns its number.
    pub(super) fn add(&mut self, pod: PodName, new: NewClaim, now: Instant) -> u64 {
        let NewClaim {
            uid,
            group,
            requested,
            replaced,
        } = new;
        self.last_number += 1;
        let number = self.last_number;
        self.made.insert(number, (now, pod.clone()));
        let pods = self.by_group.entry(group.clone()).or_default();
        pods.insert(pod.clone());
        self.pods.entry(pod).or_default().push(StoredClaim {
            uid,
            group,
            requested,
            replaced,
            number,
        });
        number
    }

    /// Ends the claim of that number, if it is still there.
    pub(super) fn end(&mut self, number: u64) {
        if let Some((_, pod)) = self.made.remove(&number) {
            self.end_if(&pod, |claim| claim.number == number);
        }
    }

    /// Ends the claims of a Pod that `is_over` is true for.
    pub(super) fn end_if(&mut self, pod: &PodName, is_over: impl Fn(&StoredClaim) -> bool) {
        let Some(claims) = self.pods.get_mut(pod) else {
            return;
        };
        let over: Vec<StoredClaim> = claims.extract_if(.., |claim| is_over(claim)).collect();
        for claim in over {
            self.made.remove(&claim.number);
            if !claims.iter().any(|other| other.group == claim.group)
                && let Some(pods) = self.by_group.get_mut(&claim.group)
            {
                pods.remove(pod);
                if pods.is_empty() {
                    self.by_group.remove(&claim.group);
                }
            }
        }
        if claims.is_empty() {
            self.pods.remove(pod);
        }
    }

    /// Ends all claims but those that `stays` is true for.
    pub(super) fn retain(&mut self, stays: impl Fn(&PodName, &StoredClaim) -> bool) {
        let pods: Vec<PodName> = self.pods.keys().cloned().collect();
        for pod in pods {
            self.end_if(&pod, |claim| !stays(&pod, claim));
        }
    }

    /// Ends the claims that have lasted long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((&number, (made, _))) = self.made.first_key_value()
            && now.saturating_duration_since(*made) >= LASTS
        {
            self.end(number);
        }
    }
}
