//! `ExclusiveCpus` tracks the exclusive CPUs of pods: their number, and the CPU time that their pods leave unused.
//! `EstimatorInputs` keeps it. See docs/estimator.md#frames.

use std::{collections::BTreeMap, mem};

use headroom_domain::estimate::PodRequest;

use crate::{
    gather::PinnedUse,
    sample::{clock::Clocks, cpus::CpuSet},
};

/// Exclusive CPUs of pods, as of the last reading.
#[derive(Debug, Default)]
pub(super) struct ExclusiveCpus {
    milli: BTreeMap<String, u64>,
    /// Left out of the brakes' inputs: a pod that fills its exclusive CPUs is no contention.
    cpus: CpuSet,
    /// Monotonic time of the last reading.
    read_ns: u64,
    /// Last reading before the first directive.
    unlisted: Vec<PinnedUse>,
}

/// Change after a reading of pods' cpusets.
#[derive(Debug, Default)]
pub(super) struct ExclusiveChange {
    /// CPU time that was held and not used since the reading before, in nanoseconds.
    pub(super) unused_ns: u64,
    /// Do other pods hold CPUs, or other amounts of them?
    pub(super) is_other: bool,
}

impl ExclusiveCpus {
    /// Records a reading. Before the first directive the pods' requests are unknown, so no CPU counts as exclusive until
    /// [`Self::list`].
    pub(super) fn record(
        &mut self,
        found: &[PinnedUse],
        listed: Option<&BTreeMap<String, PodRequest>>,
        at: Clocks,
    ) -> ExclusiveChange {
        self.read_ns = at.monotonic_ns;
        let Some(listed) = listed else {
            self.unlisted = found.to_vec();
            return ExclusiveChange::default();
        };
        let milli = exclusive_milli(found, listed);
        let change = ExclusiveChange {
            unused_ns: unused_ns(found, &milli, listed),
            is_other: milli != self.milli,
        };
        self.cpus = exclusive_cpus(found, &milli, listed);
        self.milli = milli;
        change
    }

    /// Applies the requests of a directive to a reading before the first one. The report that follows a directive contains
    /// exclusive CPUs: a report without them would raise allocatable.
    pub(super) fn list(&mut self, listed: &BTreeMap<String, PodRequest>) {
        let found = mem::take(&mut self.unlisted);
        if !found.is_empty() {
            self.milli = exclusive_milli(&found, listed);
            self.cpus = exclusive_cpus(&found, &self.milli, listed);
        }
    }

    /// Does a pod hold CPUs, and was nothing read of them for longer than that?
    pub(super) fn is_unread_for(&self, longest_ns: u64, at: Clocks) -> bool {
        !self.milli.is_empty() && at.monotonic_ns.saturating_sub(self.read_ns) > longest_ns
    }

    pub(super) const fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Sum over all pods, in milli-cores.
    pub(super) fn milli(&self) -> u64 {
        self.milli.values().sum()
    }

    /// Exclusive CPUs of a pod, in milli-cores.
    pub(super) fn of_pod(&self, uid: &str) -> u64 {
        self.milli.get(uid).copied().unwrap_or(0)
    }

    pub(super) fn has(&self, uid: &str) -> bool {
        self.milli.contains_key(uid)
    }
}

/// Milli-cores that pods hold for themselves alone, by UID.
///
/// The kubelet assigns exclusive CPUs to containers of Guaranteed pods that request whole CPUs, and confines all
/// other containers to the rest. A cpuset larger than the pod's request is that rest.
fn exclusive_milli(found: &[PinnedUse], listed: &BTreeMap<String, PodRequest>) -> BTreeMap<String, u64> {
    let holding = |held: &PinnedUse| {
        let asked = listed
            .get(&held.uid)
            .filter(|pod| pod.is_guaranteed)?
            .requests
            .cpu;
        let sets = held.cpus.iter().map(|cpus| u64::from(cpus.count()) * 1000);
        let milli = sets
            .filter(|milli| *milli <= asked)
            .fold(0, u64::saturating_add)
            .min(asked);
        (milli > 0).then(|| (held.uid.clone(), milli))
    };
    found.iter().filter_map(holding).collect()
}

/// Exclusive CPUs of these pods: for each, the smallest sets that add up to at most its whole requested CPUs. Sets
/// that containers share are larger, or belong to several pods.
fn exclusive_cpus(
    found: &[PinnedUse],
    milli: &BTreeMap<String, u64>,
    listed: &BTreeMap<String, PodRequest>,
) -> CpuSet {
    let (mut once, mut twice) = (CpuSet::default(), CpuSet::default());
    for held in found.iter().filter(|held| milli.contains_key(&held.uid)) {
        let asked = listed.get(&held.uid).map_or(0, |pod| pod.requests.cpu / 1000);
        let mut sets: Vec<_> = held.cpus.iter().collect();
        sets.sort_unstable_by_key(|set| set.count());
        let mut left = u32::try_from(asked).unwrap_or(u32::MAX);
        for set in sets {
            let Some(less) = left.checked_sub(set.count()) else {
                break;
            };
            left = less;
            twice = twice.with(&once.within(set));
            once = once.with(set);
        }
    }
    once.without(&twice)
}

/// Requested and unused CPU time of the holders since the previous poll, in nanoseconds: no other task may use it.
fn unused_ns(
    found: &[PinnedUse],
    milli: &BTreeMap<String, u64>,
    listed: &BTreeMap<String, PodRequest>,
) -> u64 {
    let holders = found.iter().filter(|held| milli.contains_key(&held.uid));
    holders
        .filter_map(|held| {
            let (used, pod) = (held.used?, listed.get(&held.uid)?);
            let asked_ns = u128::from(pod.requests.cpu) * u128::from(used.elapsed_ns) / 1000;
            let asked_ns = u64::try_from(asked_ns).unwrap_or(u64::MAX);
            Some(asked_ns.saturating_sub(used.cpu_ns))
        })
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use headroom_domain::resource::PerResource;

    use super::*;
    use crate::gather::Used;

    const SECOND: u64 = 1_000_000_000;

    /// Consecutive sets with these numbers of CPUs.
    fn sets(counts: &[u32]) -> Vec<CpuSet> {
        let mut first = 0;
        let mut set = |count: &u32| {
            let text = format!("{first}-{}", first + count - 1);
            first += count;
            CpuSet::parse(&text).unwrap()
        };
        counts.iter().map(&mut set).collect()
    }

    fn pinned(cpus: &[u32], cpu_ns: u64) -> [PinnedUse; 1] {
        let used = Used {
            elapsed_ns: SECOND,
            cpu_ns,
        };
        [PinnedUse {
            uid: "a".to_owned(),
            cpus: sets(cpus),
            used: Some(used),
        }]
    }

    fn listed(cpu: u64, is_guaranteed: bool) -> BTreeMap<String, PodRequest> {
        let request = PodRequest {
            requests: PerResource { cpu, memory: 0 },
            is_guaranteed,
            ..PodRequest::default()
        };
        [("a".to_owned(), request)].into()
    }

    fn milli(cpus: &[u32], asked: u64) -> Option<u64> {
        exclusive_milli(&pinned(cpus, 0), &listed(asked, true))
            .get("a")
            .copied()
    }

    #[test]
    fn a_guaranteed_pod_holds_the_cpus_of_its_containers() {
        assert_eq!(milli(&[2], 2000), Some(2000));
        assert_eq!(milli(&[2, 1], 3000), Some(3000));
        assert_eq!(
            milli(&[2], 2500),
            Some(2000),
            "a container beside it has half a CPU of the rest"
        );
    }

    #[test]
    fn cpus_that_containers_share_are_not_exclusive() {
        assert_eq!(milli(&[6], 2000), None);
        assert_eq!(milli(&[6, 2], 2500), Some(2000));
        assert_eq!(milli(&[1], 500), None, "half a CPU does not make a CPU exclusive");
    }

    #[test]
    fn no_pod_holds_more_than_it_requests() {
        assert_eq!(milli(&[2, 2], 3000), Some(3000));
    }

    #[test]
    fn only_other_cpus_of_pods_are_a_change() {
        let at = Clocks::default();
        let listed = listed(3000, true);
        let mut exclusive = ExclusiveCpus::default();
        let mut is_other = |found: &[PinnedUse]| exclusive.record(found, Some(&listed), at).is_other;
        assert!(!is_other(&[]), "no pod has any");
        assert!(is_other(&pinned(&[2], 0)));
        assert!(!is_other(&pinned(&[2], SECOND)), "the same CPUs, more used");
        assert!(is_other(&pinned(&[3], 0)));
        assert!(is_other(&[]), "the pod has gone");
    }

    #[test]
    fn only_listed_guaranteed_pods_hold_cpus() {
        assert!(exclusive_milli(&pinned(&[2], 0), &listed(2000, false)).is_empty());
        assert!(exclusive_milli(&pinned(&[2], 0), &BTreeMap::new()).is_empty());
    }

    #[test]
    fn shared_cpus_are_not_subtracted_from_a_pod() {
        let listed: BTreeMap<_, _> = ["a", "b"]
            .into_iter()
            .flat_map(|uid| {
                listed(2500, true)
                    .into_values()
                    .map(move |pod| (uid.to_owned(), pod))
            })
            .collect();
        let exclusive = |of_a: &[&str], of_b: &[&str]| {
            let held = |uid: &str, cpus: &[&str]| PinnedUse {
                uid: uid.to_owned(),
                cpus: cpus.iter().map(|cpus| CpuSet::parse(cpus).unwrap()).collect(),
                used: None,
            };
            let found = [held("a", of_a), held("b", of_b)];
            exclusive_cpus(&found, &exclusive_milli(&found, &listed), &listed).to_string()
        };
        assert_eq!(exclusive(&["2-3"], &["4-5"]), "2-5");
        assert_eq!(exclusive(&["2-3", "6-9"], &["6-9"]), "2-3", "the rest is larger");
        assert_eq!(exclusive(&["2-3", "6-7"], &[]), "2-3", "at most its request");
        assert_eq!(exclusive(&["6-7"], &["6-7"]), "", "both claim them");
    }

    #[test]
    fn unused_exclusive_cpu_time_is_counted() {
        let listed = listed(2000, true);
        let unused = |found: &[PinnedUse]| unused_ns(found, &exclusive_milli(found, &listed), &listed);
        assert_eq!(unused(&pinned(&[2], SECOND / 2)), SECOND * 3 / 2);
        assert_eq!(
            unused(&pinned(&[2], SECOND * 3)),
            0,
            "late readings do not make it negative"
        );
        assert_eq!(unused(&pinned(&[6], 0)), 0, "what is shared is used by others");
        let [first] = pinned(&[2], 0);
        assert_eq!(unused(&[PinnedUse { used: None, ..first }]), 0, "not known yet");
    }
}
