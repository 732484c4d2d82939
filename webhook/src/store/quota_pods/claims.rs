//! Pods that this replica has admitted and that it has not seen stored yet.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use headroom_domain::{amounts::Amounts, quantity::Quantity};

use crate::store::{
    claim_limit::{ClaimLimit, LASTS, MOST, MOST_OF_NAMESPACE},
    room::{PodGroup, PodName},
};

/// An admitted Pod.
#[derive(Debug)]
pub(super) struct StoredClaim {
    pub(super) uid: Box<str>,
    pub(super) group: PodGroup,
    /// What it asks for of the resources that are limited where it counts.
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
    /// How many there are of each namespace.
    by_namespace: HashMap<Box<str>, usize>,
    /// When each claim was made, and of what. Numbers grow with time.
    made: BTreeMap<u64, (Instant, PodName)>,
    last_number: u64,
}

/// What is claimed under one name, in one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimsOfName<'c> {
    pub(super) pod: &'c PodName,
    group: &'c PodGroup,
    claims: &'c [StoredClaim],
}

impl<'c> ClaimsOfName<'c> {
    /// The most that one of them asks for of a resource; zero if none asks for it.
    pub(super) fn most(&self, resource: &str) -> Quantity {
        let asked = self.requested().filter_map(|requested| requested.get(resource));
        asked.max().copied().unwrap_or(Quantity::ZERO)
    }

    /// The most that one of them asks for of each resource.
    pub(super) fn most_of_each(&self) -> Amounts {
        self.requested()
            .fold(Amounts::default(), |most, requested| most.max(requested))
    }

    fn requested(&self) -> impl Iterator<Item = &'c Amounts> {
        let group = self.group;
        let claims = self.claims.iter().filter(move |claim| claim.group == *group);
        claims.map(|claim| &claim.requested)
    }
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

    /// The names of a group that something is claimed of.
    pub(super) fn in_group<'c>(&'c self, group: &'c PodGroup) -> impl Iterator<Item = ClaimsOfName<'c>> {
        let pods = self.by_group.get(group).into_iter().flatten();
        pods.filter_map(move |pod| {
            let claims = self.pods.get(pod)?;
            Some(ClaimsOfName { pod, group, claims })
        })
    }

    /// Adds a claim beside those of the same name; returns its number.
    ///
    /// # Errors
    /// There are as many as there may be.
    pub(super) fn add(&mut self, pod: PodName, new: NewClaim, now: Instant) -> Result<u64, ClaimLimit> {
        let NewClaim {
            uid,
            group,
            requested,
            replaced,
        } = new;
        let of_namespace = self.by_namespace.get(&pod.namespace).copied().unwrap_or_default();
        if of_namespace >= MOST_OF_NAMESPACE {
            let namespace = pod.namespace.to_string();
            return Err(ClaimLimit::Namespace { namespace });
        }
        if self.made.len() >= MOST {
            return Err(ClaimLimit::All);
        }
        self.by_namespace.insert(pod.namespace.clone(), of_namespace + 1);
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
        Ok(number)
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
            if let Some(count) = self.by_namespace.get_mut(&pod.namespace) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.by_namespace.remove(&pod.namespace);
                }
            }
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
