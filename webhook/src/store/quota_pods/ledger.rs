//! Requests of each stored Pod, and the sums over Pods that count together.
//!
//! Of a Pod with too many resources the last ones are not kept. Its group then does not know the use of resources with
//! later names, and a group with a Pod that was never readable knows none.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use headroom_domain::{amounts::Amounts, quantity::Quantity};
use headroom_rules::pod_quota::{Transformation, growth};

use super::{counting::QuotaCounting, object::WatchedQuotaPod, pending::PendingPod};
use crate::store::{
    informer::version,
    quota_request::{CountedPod, PodGroup, PodName, QuotaRequest, check_resources, counted_resources},
};

#[derive(Debug, Default)]
pub struct Ledger {
    pods: HashMap<PodName, LedgerPod>,
    sums: HashMap<PodGroup, LedgerSum>,
    /// Counted pods under deletion, in the order in which their count ends.
    terminating: BTreeSet<(Instant, PodName)>,
    counting: QuotaCounting,
    /// The highest resource version of any Pod so far.
    newest: u64,
}

#[derive(Debug, Clone)]
struct LedgerPod {
    uid: Box<str>,
    /// Its resource version, as a number.
    version: u64,
    group: PodGroup,
    /// True if it does not count any more: it has ended, or its deletion is overdue.
    has_ended: bool,
    /// End of its count, if it is under deletion.
    counts_until: Option<Instant>,
    /// The name after which its resources are not kept, except usual ones; `None` if all are kept.
    cut_after: Option<Box<str>>,
    /// False if no state of it could be read. Its requests are then missing.
    is_readable: bool,
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
    /// Names after which resources of some are not kept, with the number of pods for each.
    cut_after: BTreeMap<Box<str>, usize>,
    /// Number of those that were never readable.
    unreadable: usize,
    plain: Amounts,
    renamed: Amounts,
}

impl LedgerPod {
    /// The Pod once it does not count any more.
    fn uncounted(self) -> Self {
        Self {
            has_ended: true,
            cut_after: None,
            is_readable: true,
            plain: Amounts::default(),
            renamed: None,
            ..self
        }
    }

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
    /// No pods.
    pub(super) fn new(counting: QuotaCounting) -> Self {
        Self {
            counting,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// The highest resource version that the watch has delivered.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// True if it has that Pod.
    pub(super) fn has(&self, pod: &PodName, uid: &str) -> bool {
        self.pods.get(pod).is_some_and(|stored| *stored.uid == *uid)
    }

    /// Ends the count of pods whose deletion is overdue.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.terminating.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, pod)) = self.terminating.pop_first() else {
                return;
            };
            if let Some(stored) = self.pods.get(&pod).cloned() {
                self.insert(pod, stored.uncounted());
            }
        }
    }

    /// Records the current state of a Pod with a name. Its earlier state no longer counts.
    pub(super) fn set(&mut self, object: WatchedQuotaPod) {
        let Some((pod, uid)) = object.key() else { return };
        let now = Instant::now();
        let (group, version, has_ended) = (object.group(), version(&object), object.has_ended());
        let counts_until = self.counting.end_of(&object.metadata, now);
        self.newest = self.newest.max(version);
        let (plain, renamed) = object.requested(self.counting.ignores_overhead);
        let cut_after = [Some(&plain), renamed.as_ref()].into_iter().flatten();
        let cut_after = cut_after.filter_map(cut_after_name).min().map(Into::into);
        let (plain, renamed) = (summable(counted(plain)), renamed.map(counted).map(summable));
        // Most events are of the status.
        if let Some(before) = self.pods.get_mut(&pod)
            && before.uid == uid
            && before.group == group
            && before.has_ended == has_ended
            && before.counts_until == counts_until
            && before.is_readable
            && before.cut_after == cut_after
            && before.plain == plain
            && before.renamed == renamed
        {
            before.version = version;
            return;
        }
        let entry = LedgerPod {
            uid,
            version,
            group,
            has_ended,
            counts_until,
            cut_after,
            is_readable: true,
            plain,
            renamed,
        };
        let is_over = counts_until.is_some_and(|end| end <= now);
        self.insert(pod, if is_over { entry.uncounted() } else { entry });
    }

    /// Records a Pod that cannot be read. Its last readable state is that in `before`, or here; without one its requests
    /// are unknown.
    pub(super) fn set_unreadable(&mut self, object: &WatchedQuotaPod, before: Option<&Self>) {
        let Some((pod, uid)) = object.key() else { return };
        let last = before.unwrap_or(self).pods.get(&pod).cloned();
        let is_last = |last: &LedgerPod| last.uid == uid && last.is_readable && !object.has_ended();
        let entry = match last.filter(is_last) {
            Some(last) => last,
            None => LedgerPod {
                uid,
                version: version(object),
                group: object.group(),
                has_ended: object.has_ended(),
                counts_until: None,
                cut_after: None,
                is_readable: object.has_ended(),
                plain: Amounts::default(),
                renamed: None,
            },
        };
        self.insert(pod, entry);
    }

    /// False while the use of one of the resources by the group is unknown.
    pub(super) fn is_known(&self, group: &PodGroup, resources: &BTreeSet<Box<str>>) -> bool {
        let Some(sum) = self.sums.get(group) else {
            return true;
        };
        let cut_after = sum.cut_after.first_key_value();
        let is_kept = |name: &str| {
            Amounts::is_usual(name) || cut_after.is_none_or(|(cut_after, _)| name <= &**cut_after)
        };
        sum.unreadable == 0 && resources.iter().all(|name| is_kept(name))
    }

    fn insert(&mut self, pod: PodName, entry: LedgerPod) {
        self.remove(&pod);
        let sum = self.sums.entry(entry.group.clone()).or_default();
        sum.pods += 1;
        sum.ended += usize::from(entry.has_ended);
        if let Some(name) = &entry.cut_after {
            *sum.cut_after.entry(name.clone()).or_default() += 1;
        }
        sum.unreadable += usize::from(!entry.is_readable);
        if let Some(end) = entry.counts_until.filter(|_| !entry.has_ended) {
            self.terminating.insert((end, pod.clone()));
        }
        add(&mut sum.plain, &entry.plain);
        add(&mut sum.renamed, entry.requested(Transformation::ByAnnotation));
        self.pods.insert(pod, entry);
    }

    pub(super) fn remove(&mut self, pod: &PodName) {
        let Some(entry) = self.pods.remove(pod) else {
            return;
        };
        if let Some(end) = entry.counts_until {
            self.terminating.remove(&(end, pod.clone()));
        }
        let Some(sum) = self.sums.get_mut(&entry.group) else {
            return;
        };
        sum.pods = sum.pods.saturating_sub(1);
        sum.ended = sum.ended.saturating_sub(usize::from(entry.has_ended));
        if let Some(name) = &entry.cut_after
            && let Some(pods) = sum.cut_after.get_mut(name)
        {
            *pods = pods.saturating_sub(1);
            if *pods == 0 {
                sum.cut_after.remove(name);
            }
        }
        sum.unreadable = sum.unreadable.saturating_sub(usize::from(!entry.is_readable));
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

/// The last counted resource of a Pod with too many; empty if only usual ones are counted.
fn cut_after_name(amounts: &Amounts) -> Option<&str> {
    check_resources(amounts).err()?;
    let others = counted_resources(amounts).filter(|name| !Amounts::is_usual(name));
    Some(others.last().unwrap_or_default())
}

/// Requests of the resources that are counted.
fn counted(amounts: Amounts) -> Amounts {
    if check_resources(&amounts).is_ok() {
        return amounts;
    }
    let names: BTreeSet<&str> = counted_resources(&amounts).collect();
    amounts.filtered(|name, _| names.contains(name))
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
