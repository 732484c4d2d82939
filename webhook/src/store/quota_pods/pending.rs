//! Pods that this replica has admitted and that it has not seen stored yet.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use headroom_domain::{amounts::Amounts, quantity::Quantity};

use super::controller_pace::{ControllerKey, ControllerPace};
use crate::store::{
    caller::ReviewCaller,
    pending_limit::{LASTS, LASTS_DURING_LAG, MOST, MOST_OF_NAMESPACE, PendingLimit},
    quota_request::{PodGroup, PodName},
};

/// A watch lags that delivers a Pod this long after its admission.
const LAG: Duration = Duration::from_secs(2);
/// Time for which a late Pod shows that the watch lags.
const LAG_COUNTS: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct PendingPod {
    pub(super) uid: Box<str>,
    pub(super) group: PodGroup,
    /// Requests of the resources that are limited where it counts.
    pub(super) requested: Amounts,
    /// The resource version of the stored Pod that an update was to replace; 0 for a new one.
    pub(super) replaced: u64,
    /// Controller of a new Pod.
    controller: Option<ControllerKey>,
    admission: AdmissionKey,
}

/// Identifies an admission: its time, and its number.
pub(super) type AdmissionKey = (Instant, u64);

/// A claim to be made.
#[derive(Debug)]
pub(super) struct NewPendingPod {
    pub(super) uid: Box<str>,
    pub(super) group: PodGroup,
    pub(super) requested: Amounts,
    pub(super) replaced: u64,
    /// Controller of a new Pod.
    pub(super) controller: Option<ControllerKey>,
    pub(super) caller: ReviewCaller,
}

/// Admitted pods. Several may have one name, because a client has repeated its request: at most one of them is
/// stored, and this replica does not know which.
#[derive(Debug, Default)]
pub(super) struct PendingPods {
    pods: HashMap<PodName, Vec<PendingPod>>,
    by_group: HashMap<PodGroup, BTreeSet<PodName>>,
    /// Admissions of each namespace, the oldest in front.
    by_namespace: HashMap<Box<str>, BTreeSet<AdmissionKey>>,
    /// Name of each admission for an API server, the oldest in front.
    verified: BTreeMap<AdmissionKey, PodName>,
    /// Name of each admission for another client, the oldest in front.
    unverified: BTreeMap<AdmissionKey, PodName>,
    pub(super) pace: ControllerPace,
    /// Time of the last Pod that the watch delivered late.
    lagged_at: Option<Instant>,
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
            pace: std::mem::take(&mut self.pace).emptied(),
            last_number: self.last_number,
            ..Self::default()
        };
    }

    /// Number of names that something is claimed of.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// The name of each claim.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &PodName> {
        self.verified.values().chain(self.unverified.values())
    }

    /// The names of a group that something is claimed of.
    pub(super) fn in_group<'c>(&'c self, group: &'c PodGroup) -> impl Iterator<Item = PendingOfName<'c>> {
        let pods = self.by_group.get(group).into_iter().flatten();
        pods.filter_map(move |pod| {
            let pending = self.pods.get(pod)?;
            Some(PendingOfName { pod, group, pending })
        })
    }

    /// Adds a pending admission, also next to one of the same name.
    ///
    /// # Errors
    /// There are as many as there may be, or the controller of the Pod is ahead of the watch.
    pub(super) fn add(
        &mut self,
        pod: PodName,
        new: NewPendingPod,
        now: Instant,
    ) -> Result<AdmissionKey, PendingLimit> {
        let NewPendingPod {
            uid,
            group,
            requested,
            replaced,
            controller,
            caller,
        } = new;
        if let Some(controller) = controller {
            self.pace.check(controller, &pod, now)?;
        }
        self.take_place(&pod.namespace)?;
        self.last_number += 1;
        let admission = (now, self.last_number);
        let of_namespace = self.by_namespace.entry(pod.namespace.clone()).or_default();
        of_namespace.insert(admission);
        match caller {
            ReviewCaller::Verified => &mut self.verified,
            ReviewCaller::Unverified => &mut self.unverified,
        }
        .insert(admission, pod.clone());
        if let Some(controller) = controller {
            self.pace.begin(controller);
        }
        let pods = self.by_group.entry(group.clone()).or_default();
        pods.insert(pod.clone());
        self.pods.entry(pod).or_default().push(PendingPod {
            uid,
            group,
            requested,
            replaced,
            controller,
            admission,
        });
        Ok(admission)
    }

    /// Makes sure that a namespace may have one more claim. If there are [`MOST`], a namespace below its share gets the
    /// place of the oldest claim of the namespace with the most. The search runs only then.
    fn take_place(&mut self, namespace: &str) -> Result<(), PendingLimit> {
        let own = self.by_namespace.get(namespace).map_or(0, BTreeSet::len);
        let error_name = || namespace.to_owned();
        if own >= MOST_OF_NAMESPACE {
            return Err(PendingLimit::Namespace {
                namespace: error_name(),
            });
        }
        if self.verified.len() + self.unverified.len() < MOST {
            return Ok(());
        }
        let namespaces = self.by_namespace.len() + usize::from(own == 0);
        let share = (MOST / namespaces.max(1)).max(1);
        let largest = self.by_namespace.values().max_by_key(|numbers| numbers.len());
        let oldest = largest.filter(|numbers| own < share && own < numbers.len());
        let Some(&oldest) = oldest.and_then(BTreeSet::first) else {
            return Err(PendingLimit::All {
                namespace: error_name(),
                share,
            });
        };
        self.end(oldest);
        Ok(())
    }

    /// Ends a claim, if it is still there.
    pub(super) fn end(&mut self, admission: AdmissionKey) {
        let of_api_server = self.verified.remove(&admission);
        if let Some(pod) = of_api_server.or_else(|| self.unverified.remove(&admission)) {
            self.end_if(&pod, |entry| entry.admission == admission);
        }
    }

    /// Ends the claims of a Pod that `shows` is true for: the watch has delivered it. Returns true if there was one.
    pub(super) fn deliver(
        &mut self,
        pod: &PodName,
        shows: impl Fn(&PendingPod) -> bool,
        now: Instant,
    ) -> bool {
        let Some(pending) = self.pods.get(pod) else {
            return false;
        };
        let shown = || {
            pending
                .iter()
                .filter(|entry| shows(entry))
                .map(|entry| entry.admission)
        };
        if shown().next().is_none() {
            return false;
        }
        // Any client could have admissions delivered late: it chooses when the object is written.
        let of_api_servers = shown().filter(|admission| self.verified.contains_key(admission));
        let last = of_api_servers.map(|(at, _)| at).max();
        if last.is_some_and(|at| now.saturating_duration_since(at) >= LAG) {
            self.lagged_at = Some(now);
        }
        self.end_if(pod, shows);
        true
    }

    /// Ends the claims of a Pod that `is_over` is true for.
    pub(super) fn end_if(&mut self, pod: &PodName, is_over: impl Fn(&PendingPod) -> bool) {
        let Some(pending) = self.pods.get_mut(pod) else {
            return;
        };
        let over: Vec<PendingPod> = pending.extract_if(.., |entry| is_over(entry)).collect();
        for entry in over {
            self.verified.remove(&entry.admission);
            self.unverified.remove(&entry.admission);
            if let Some(controller) = entry.controller {
                self.pace.end(controller);
            }
            if let Some(admissions) = self.by_namespace.get_mut(&pod.namespace) {
                admissions.remove(&entry.admission);
                if admissions.is_empty() {
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
        let lags = self
            .lagged_at
            .is_some_and(|at| now.saturating_duration_since(at) < LAG_COUNTS);
        let of_api_servers = if lags { LASTS_DURING_LAG } else { LASTS };
        while let Some(admission) = first_before(&self.verified, now, of_api_servers)
            .or_else(|| first_before(&self.unverified, now, LASTS))
        {
            self.end(admission);
        }
    }
}

/// The oldest admission, if it has lasted that long.
fn first_before(
    made: &BTreeMap<AdmissionKey, PodName>,
    now: Instant,
    lasts: Duration,
) -> Option<AdmissionKey> {
    let (&(at, number), _) = made.first_key_value()?;
    (at + lasts <= now).then_some((at, number))
}
