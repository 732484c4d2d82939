//! Requests of each stored Pod, and the sums over Pods that count together.

use std::collections::HashMap;

use headroom_domain::{amounts::Amounts, quantity::Quantity};
use headroom_rules::pod_quota::{Transformation, growth};

use super::{object::WatchedQuotaPod, pending::PendingPod};
use crate::store::{
    informer::version,
    quota_request::{CountedPod, PodGroup, PodName, QuotaRequest},
};

#[derive(Debug, Default)]
pub struct Ledger {
    pods: HashMap<PodName, LedgerPod>,
    sums: HashMap<PodGroup, LedgerSum>,
}

#[derive(Debug)]
struct LedgerPod {
    uid: Box<str>,
    /// Its resource version, as a number.
    version: u64,
    group: PodGroup,
    has_ended: bool,
    /// Requests, capped so that they can be summed.
    plain: Amounts,
    /// Requests with resources renamed by annotation, if the Pod has one.
    renamed: Option<Amounts>,
}

#[derive(Debug, Default)]
struct LedgerSum {
    pods: usize,
    /// Number of those that have ended.
    ended: usize,
    plain: Amounts,
    renamed: Amounts,
}

impl LedgerPod {
    fn requested(&self, transformation: Transformation) -> &Amounts {
        match (transformation, &self.renamed) {
            (Transformation::ByAnnotation, Some(renamed)) => renamed,
            (Transformation::ByAnnotation | Transformation::None, _) => &self.plain,
        }
    }
}

impl LedgerSum {
    fn requested(&self, transformation: Transformation) -> &Amounts {
        match transformation {
            Transformation::None => &self.plain,
            Transformation::ByAnnotation => &self.renamed,
        }
    }
}

impl Ledger {
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Records the current state of a Pod; `None` if it has no name. Its earlier state no longer counts.
    pub(super) fn set(&mut self, object: WatchedQuotaPod) -> Option<PodName> {
        let (pod, uid) = object.key()?;
        let (group, version, has_ended) = (object.group(), version(&object), object.has_ended());
        let (plain, renamed) = object.requested();
        let (plain, renamed) = (summable(plain), renamed.map(summable));
        // Most events are of the status.
        if let Some(before) = self.pods.get_mut(&pod)
            && before.uid == uid
            && before.group == group
            && before.has_ended == has_ended
            && before.plain == plain
            && before.renamed == renamed
        {
            before.version = version;
            return Some(pod);
        }
        self.remove(&pod);
        let entry = LedgerPod {
            uid,
            version,
            group,
            has_ended,
            plain,
            renamed,
        };
        let sum = self.sums.entry(entry.group.clone()).or_default();
        sum.pods += 1;
        sum.ended += usize::from(has_ended);
        add(&mut sum.plain, &entry.plain);
        add(&mut sum.renamed, entry.requested(Transformation::ByAnnotation));
        self.pods.insert(pod.clone(), entry);
        Some(pod)
    }

    pub(super) fn remove(&mut self, pod: &PodName) {
        let Some(entry) = self.pods.remove(pod) else {
            return;
        };
        let Some(sum) = self.sums.get_mut(&entry.group) else {
            return;
        };
        sum.pods = sum.pods.saturating_sub(1);
        sum.ended = sum.ended.saturating_sub(usize::from(entry.has_ended));
        if sum.pods == 0 {
            self.sums.remove(&entry.group);
            return;
        }
        subtract(&mut sum.plain, &entry.plain);
        subtract(&mut sum.renamed, entry.requested(Transformation::ByAnnotation));
    }

    /// Adds the requests of a group's pods for the resources of a request, in their order, without its own Pod.
    pub(super) fn add_others(&self, sums: &mut [Quantity], group: &PodGroup, request: &QuotaRequest) {
        let transformation = request.transformation;
        let Some(all) = self.sums.get(group) else { return };
        let (all, own) = (
            all.requested(transformation),
            self.requested_in(group, &request.pod, transformation),
        );
        for (sum, resource) in sums.iter_mut().zip(&request.resources) {
            let Some(all) = all.get(resource) else { continue };
            let own = own.and_then(|own| own.get(resource));
            let others = own.map_or(Some(*all), |own| all.checked_sub(own));
            *sum = sum.saturating_add(&others.unwrap_or(Quantity::ZERO));
        }
    }

    /// Adds the requests of all pods of a group; returns the number of pods that have not ended.
    pub(super) fn add_all(
        &self,
        sums: &mut Amounts,
        group: &PodGroup,
        transformation: Transformation,
    ) -> usize {
        let Some(sum) = self.sums.get(group) else { return 0 };
        sums.add(sum.requested(transformation));
        sum.pods.saturating_sub(sum.ended)
    }

    /// A Pod as it counts.
    pub(super) fn get(&self, pod: &PodName, transformation: Transformation) -> Option<CountedPod> {
        self.pods.get(pod).map(|stored| CountedPod {
            uid: stored.uid.clone(),
            group: stored.group.clone(),
            requested: stored.requested(transformation).clone(),
        })
    }

    /// Requests of a stored Pod of a group; `None` if it is not stored.
    pub(super) fn requested_in(
        &self,
        group: &PodGroup,
        pod: &PodName,
        transformation: Transformation,
    ) -> Option<&Amounts> {
        let stored = self.pods.get(pod).filter(|stored| stored.group == *group)?;
        Some(stored.requested(transformation))
    }

    /// True if the Pod is stored as it was admitted.
    pub(super) fn shows(&self, pod: &PodName, entry: &PendingPod) -> bool {
        let Some(there) = self.pods.get(pod) else {
            return false;
        };
        // Whether resources were renamed when it was admitted is not known.
        let covers = |there: &Amounts| growth(&entry.requested, there).is_empty();
        there.uid == entry.uid
            && there.version > entry.replaced
            && there.group == entry.group
            && (covers(&there.plain) || there.renamed.as_ref().is_some_and(covers))
    }
}

/// Countable part of a Pod's requests: at most 10²⁰ of a resource, so that a sum over 10⁹ pods is exact and removing
/// a Pod leaves the sum of the others. Kubernetes stores larger decimal amounts; the largest binary one is below
/// 10¹⁹.
pub(super) fn summable(amounts: Amounts) -> Amounts {
    let most = Quantity::from_whole(10_i128.pow(20));
    if amounts.iter().all(|(_, amount)| *amount <= most) {
        return amounts;
    }
    let capped = amounts.iter().map(|(name, amount)| (name, *amount.min(&most)));
    capped.collect()
}

fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts.iter() {
        let before = sum.get(name).unwrap_or(&Quantity::ZERO);
        sum.set(name, before.saturating_add(amount));
    }
}

/// Subtracts amounts that were added.
fn subtract(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts.iter() {
        let rest = sum.get(name).and_then(|before| before.checked_sub(amount));
        match rest.filter(|rest| !rest.is_zero()) {
            Some(rest) => sum.set(name, rest),
            None => drop(sum.remove(name)),
        }
    }
}
