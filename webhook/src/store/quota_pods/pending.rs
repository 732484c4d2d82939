//! Pods that this replica has admitted and that it has not seen stored yet.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use headroom_domain::{amounts::Amounts, quantity::Quantity};

use crate::store::{
    pending_limit::{LASTS, MOST, MOST_OF_NAMESPACE, PendingLimit},
    quota_request::{PodGroup, PodName},
};

#[derive(Debug)]
pub(super) struct PendingPod {
    pub(super) uid: Box<str>,
    pub(super) group: PodGroup,
    /// Requests of the resources that are limited where it counts.
    pub(super) requested: Amounts,
    /// The resource version of the stored Pod that an update was to replace; 0 for a new one.
    pub(super) replaced: u64,
    /// Identifies the admission.
    number: u64,
}

/// A claim to be made.
#[derive(Debug)]
pub(super) struct NewPendingPod {
    pub(super) uid: Box<str>,
    pub(super) group: PodGroup,
    pub(super) requested: Amounts,
    pub(super) replaced: u64,
}

/// Admitted pods. Several may have one name, because a client has repeated its request: at most one of them is
/// stored, and this replica does not know which.
#[derive(Debug, Default)]
pub(super) struct PendingPods {
    pods: HashMap<PodName, Vec<PendingPod>>,
    by_group: HashMap<PodGroup, BTreeSet<PodName>>,
    /// Number of admitted pods by namespace.
    by_namespace: HashMap<Box<str>, usize>,
    /// Time and name of each pending admission. Numbers grow with time.
    made: BTreeMap<u64, (Instant, PodName)>,
    last_number: u64,
}

/// Pending admissions under one name, in one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingOfName<'c> {
    pub(super) pod: &'c PodName,
    group: &'c PodGroup,
    pending: &'c [PendingPod],
}

impl<'c> PendingOfName<'c> {
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
        let pending = self.pending.iter().filter(move |entry| entry.group == *group);
        pending.map(|entry| &entry.requested)
    }
}

impl PendingPods {
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
    pub(super) fn in_group<'c>(&'c self, group: &'c PodGroup) -> impl Iterator<Item = PendingOfName<'c>> {
        let pods = self.by_group.get(group).into_iter().flatten();
        pods.filter_map(move |pod| {
            let pending = self.pods.get(pod)?;
            Some(PendingOfName { pod, group, pending })
        })
    }

    /// Adds a pending admission, also next to one of the same name; returns its number.
    ///
    /// # Errors
    /// There are as many as there may be.
    pub(super) fn add(
        &mut self,
        pod: PodName,
        new: NewPendingPod,
        now: Instant,
    ) -> Result<u64, PendingLimit> {
        let NewPendingPod {
            uid,
            group,
            requested,
            replaced,
        } = new;
        let of_namespace = self.by_namespace.get(&pod.namespace).copied().unwrap_or_default();
        if of_namespace >= MOST_OF_NAMESPACE {
            let namespace = pod.namespace.to_string();
            return Err(PendingLimit::Namespace { namespace });
        }
        if self.made.len() >= MOST {
            return Err(PendingLimit::All);
        }
        self.by_namespace.insert(pod.namespace.clone(), of_namespace + 1);
        self.last_number += 1;
        let number = self.last_number;
        self.made.insert(number, (now, pod.clone()));
        let pods = self.by_group.entry(group.clone()).or_default();
        pods.insert(pod.clone());
        self.pods.entry(pod).or_default().push(PendingPod {
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
            self.end_if(&pod, |entry| entry.number == number);
        }
    }

    /// Ends the claims of a Pod that `is_over` is true for.
    pub(super) fn end_if(&mut self, pod: &PodName, is_over: impl Fn(&PendingPod) -> bool) {
        let Some(pending) = self.pods.get_mut(pod) else {
            return;
        };
        let over: Vec<PendingPod> = pending.extract_if(.., |entry| is_over(entry)).collect();
        for entry in over {
            self.made.remove(&entry.number);
            if let Some(count) = self.by_namespace.get_mut(&pod.namespace) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.by_namespace.remove(&pod.namespace);
                }
            }
            if !pending.iter().any(|other| other.group == entry.group)
                && let Some(pods) = self.by_group.get_mut(&entry.group)
            {
                pods.remove(pod);
                if pods.is_empty() {
                    self.by_group.remove(&entry.group);
                }
            }
        }
        if pending.is_empty() {
            self.pods.remove(pod);
        }
    }

    /// Ends all claims but those that `stays` is true for.
    pub(super) fn retain(&mut self, stays: impl Fn(&PodName, &PendingPod) -> bool) {
        let pods: Vec<PodName> = self.pods.keys().cloned().collect();
        for pod in pods {
            self.end_if(&pod, |entry| !stays(&pod, entry));
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
