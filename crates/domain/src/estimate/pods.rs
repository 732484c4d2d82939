//! [`Pods`]: tracks the pods of a node for the estimator: age in frames, use, and trust in their requests.

mod forecast;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(super) use self::forecast::Forecast;
pub use self::forecast::KnownWorkloads;
use super::{
    Frame, PodRequest, PodUse, Timing,
    frame_renumbering::Shift,
    history::Newcomer,
    low_ring::LowRing,
    succession::{Inherited, Lineage, RecentDepartures, has_lineage},
};
use crate::resource::{PerResource, Resource};

/// Most tracked pods; further pods are charged in full, and their use is never subtracted.
pub const MOST_TRACKED: usize = 512;
/// Fraction bits of a long-term peak: without them integer division would never decay a small peak.
const FRACTION: u32 = 16;

/// Trust in the requests of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// UID of the pod object.
    pub uid: String,
    /// Trust in ppm, 0 to 1,000,000; 0 for a pod that is being deleted or has exclusive CPUs.
    pub ppm: PerResource<u32>,
}

/// State of one pod whose use was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TrackedPod {
    /// Request in the last view.
    request: PodRequest,
    /// True if the pod is in the server's last view.
    is_listed: bool,
    /// First frame in which its use was measured.
    birth: u64,
    /// Valid frames in which it was measured.
    seen: u32,
    /// Valid frames since its request last grew. Separate from `seen`: a growing request costs the pod its trust, not
    /// its peak.
    age: PerResource<u32>,
    /// Low estimates by frame, for a later departure.
    low: PerResource<LowRing>,
    /// E: decaying peak of the high estimate, 48 bits plus [`FRACTION`] bits of fraction.
    peak: PerResource<u64>,
    /// Trust that it took over from its predecessor. Not serialized here: see [`Lineage`].
    #[serde(skip)]
    inherited: PerResource<Option<Inherited>>,
}

/// Change of the use of departed pods (Dep).
#[derive(Debug)]
pub(super) enum DepartureChange {
    /// The pod has left.
    Left(TrackedPod),
    /// It had left, and another pod continues its history.
    Continued(TrackedPod),
}

impl TrackedPod {
    fn born(request: PodRequest, frame: u64, timing: &Timing) -> Self {
        Self {
            request,
            is_listed: true,
            birth: frame,
            seen: 0,
            age: PerResource::default(),
            low: PerResource::from_fn(|_| LowRing::new(timing.ring_frames)),
            peak: PerResource::default(),
            inherited: PerResource::default(),
        }
    }

    /// The pod that continues this one.
    fn succeeded_by(&self, request: PodRequest, timing: &Timing) -> Self {
        let version = |request: &PodRequest| request.workload.map(|workload| workload.version);
        let is_same_version = version(&self.request) == version(&request);
        Self {
            request,
            is_listed: true,
            age: PerResource::default(),
            inherited: Inherited::from(self, is_same_version, timing),
            ..self.clone()
        }
    }

    /// Hash of its controller.
    pub(super) fn controller(&self) -> Option<u64> {
        self.request.workload.map(|workload| workload.controller)
    }

    /// Valid frames since its own birth, or since its request last grew.
    pub(super) fn own_age(&self, resource: Resource) -> u32 {
        *self.age.get(resource)
    }

    /// r: its request.
    pub(super) fn requested(&self, resource: Resource) -> u64 {
        *self.request.requests.get(resource)
    }

    /// Trust that it took over.
    pub(super) fn inherited(&self, resource: Resource) -> Option<Inherited> {
        *self.inherited.get(resource)
    }

    /// Low estimates of one resource, by frame.
    pub(super) fn low(&self, resource: Resource) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.low.get(resource).uses(resource)
    }

    /// Trusted part of the request, in milli-cores or bytes, and as a share in ppm: by its own age, or as taken over
    /// or known of its workload if that is more.
    fn trusted(&self, resource: Resource, timing: &Timing, known: Option<&KnownWorkloads>) -> (u64, u32) {
        if !self.is_listed || self.request.is_deleting || self.request.has_own_cpus {
            return (0, 0);
        }
        let request = self.requested(resource);
        let span = timing.trust_span();
        let parts = timing.trusted_frames(self.own_age(resource));
        let share = |part: u128, of: u128| u32::try_from(part * 1_000_000 / of.max(1)).unwrap_or(1_000_000);
        let own = u128::from(request) * u128::from(parts) / u128::from(span.max(1));
        let own = u64::try_from(own).unwrap_or(u64::MAX);
        let inherited = self.inherited(resource);
        let observed = match inherited.map(|inherited| inherited.trusted(request, timing)) {
            Some(inherited) if inherited > own => (inherited, share(inherited.into(), request.into())),
            Some(_) | None => (own, share(parts.into(), span.into())),
        };
        let by_workload = self.trusted_by_workload(resource, known);
        by_workload.map_or(observed, |by_workload| by_workload.max(observed))
    }

    /// e: long-term peak, rounded up.
    fn long_peak(&self, resource: Resource) -> u64 {
        self.peak.get(resource).div_ceil(1 << FRACTION)
    }

    /// Renumbers the frames for another boot of the machine. The pod stays the same, as after a restart of its
    /// containers.
    fn shift(&mut self, shift: Shift) {
        self.birth = shift.apply(self.birth).unwrap_or(0);
        for resource in Resource::ALL {
            self.low.get_mut(resource).shift(resource, shift);
        }
    }

    fn is_sound(&self, timing: &Timing, last: u64) -> bool {
        let is_ring = |resource| self.low.get(resource).is_sound(timing.ring_frames, last);
        self.birth <= last && Resource::ALL.into_iter().all(is_ring)
    }

    fn follow(&mut self, request: Option<&PodRequest>) {
        self.is_listed = request.is_some();
        let Some(request) = request else { return };
        for resource in Resource::ALL {
            if request.requests.get(resource) > self.request.requests.get(resource) {
                *self.age.get_mut(resource) = 0;
                *self.inherited.get_mut(resource) = None;
            }
        }
        self.request = *request;
    }

    fn observe(&mut self, frame: u64, is_valid: bool, used: &PodUse, timing: &Timing) {
        self.seen = self.seen.saturating_add(u32::from(is_valid));
        for resource in Resource::ALL {
            let age = self.age.get_mut(resource);
            *age = age.saturating_add(u32::from(is_valid));
            if let Some(inherited) = self.inherited.get_mut(resource) {
                inherited.age = inherited.age.saturating_add(u32::from(is_valid));
            }
            let low = self.low.get_mut(resource);
            low.push(resource, frame, *used.low.get(resource));
            let peak = self.peak.get_mut(resource);
            let high = (*used.high.get(resource)).min(u64::MAX >> FRACTION) << FRACTION;
            *peak = high.max(*peak - *peak / timing.peak_decay.max(1));
        }
    }
}

/// Pods of a node by UID. At most [`MOST_TRACKED`] are tracked, in order of arrival.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pods {
    tracked: BTreeMap<String, TrackedPod>,
    /// R: sum of all listed requests.
    bound: PerResource<u64>,
    /// Pods that left within the last ten minutes. A restart of the agent forgets them.
    #[serde(skip)]
    departures: RecentDepartures,
    /// Profiles of the pods' workloads. A restart of the agent forgets them.
    #[serde(skip)]
    known: Option<KnownWorkloads>,
}

impl Pods {
    /// Applies the server's list. A request that grew starts again at age 0 in that resource; a pod that is listed
    /// again later is compared with its last known request.
    pub fn follow(&mut self, listed: &BTreeMap<String, PodRequest>) {
        for (uid, pod) in &mut self.tracked {
            pod.follow(listed.get(uid));
        }
        self.bound = PerResource::from_fn(|resource| {
            let requests = listed.values().map(|pod| *pod.requests.get(resource));
            requests.fold(0, u64::saturating_add)
        });
    }

    /// Records frame number `index` and returns the pods that have left: neither listed nor with a cgroup. A pod is
    /// not tracked if it is not listed when it is first measured, or beyond [`MOST_TRACKED`]. A pod that is first
    /// measured continues the history of a pod of its controller that has left.
    pub(super) fn end_frame(
        &mut self,
        index: u64,
        frame: &Frame,
        listed: &BTreeMap<String, PodRequest>,
        timing: &Timing,
    ) -> Vec<DepartureChange> {
        let is_gone = |uid: &String, pod: &mut TrackedPod| {
            !pod.is_listed && !frame.pods.contains_key(uid) && !frame.unmeasured.contains(uid)
        };
        let mut changes = Vec::new();
        for (_, pod) in self.tracked.extract_if(.., is_gone) {
            if pod.controller().is_some() {
                self.departures.push(index, pod.clone());
            }
            changes.push(DepartureChange::Left(pod));
        }
        self.departures.forget(index, MOST_TRACKED, timing);
        let newcomers = frame.pods.keys().filter(|uid| !self.tracked.contains_key(*uid));
        let newcomers: Vec<_> = newcomers
            .filter_map(|uid| Some((uid, *listed.get(uid)?)))
            .collect();
        for (uid, request) in newcomers {
            if self.tracked.len() >= MOST_TRACKED {
                break;
            }
            let pod = match self.predecessor(&request) {
                Some((predecessor, has_left)) => {
                    let pod = predecessor.succeeded_by(request, timing);
                    changes.extend(has_left.then_some(DepartureChange::Continued(predecessor)));
                    pod
                }
                None => TrackedPod::born(request, index, timing),
            };
            self.tracked.insert(uid.clone(), pod);
        }
        for (uid, used) in &frame.pods {
            if let Some(pod) = self.tracked.get_mut(uid) {
                pod.observe(index, frame.is_valid, used, timing);
            }
        }
        self.departures
            .forget(index, MOST_TRACKED - self.tracked.len(), timing);
        changes
    }

    /// Removes the pod that a new one continues: one of its controller that left within ten minutes (true), or whose
    /// object is gone and whose cgroup was still measured (false).
    fn predecessor(&mut self, request: &PodRequest) -> Option<(TrackedPod, bool)> {
        let controller = request.workload?.controller;
        if let Some(pod) = self.departures.remove_first(controller) {
            return Some((pod, true));
        }
        let is_it = |pod: &TrackedPod| !pod.is_listed && pod.controller() == Some(controller);
        let found = self.tracked.iter().find(|(_, pod)| is_it(pod));
        let uid = found.map(|(uid, _)| uid.clone())?;
        Some((self.tracked.remove(&uid)?, false))
    }

    /// Lineages of the tracked pods, for a checkpoint.
    pub(super) fn lineages(&self) -> Vec<Lineage> {
        let with_one = self.tracked.iter().filter(|(_, pod)| has_lineage(pod));
        with_one
            .map(|(uid, pod)| Lineage {
                uid: uid.clone(),
                workload: pod.request.workload,
                inherited: pod.inherited,
            })
            .collect()
    }

    /// Restores the result of [`Self::lineages`]; pods that are not tracked are skipped.
    pub(super) fn restore_lineages(&mut self, lineages: &[Lineage]) {
        for Lineage {
            uid,
            workload,
            inherited,
        } in lineages
        {
            if let Some(pod) = self.tracked.get_mut(uid) {
                pod.request.workload = *workload;
                pod.inherited = *inherited;
            }
        }
    }

    /// Returns true if this state is possible under that timing, with no frame later than `last`.
    pub(super) fn is_sound(&self, timing: &Timing, last: u64) -> bool {
        self.tracked.len() <= MOST_TRACKED && self.tracked.values().all(|pod| pod.is_sound(timing, last))
    }

    /// Marks all pods as listed: until the server sends a view, none has left.
    pub(super) fn resume(&mut self) {
        self.bound = PerResource::default();
        self.departures = RecentDepartures::default();
        for pod in self.tracked.values_mut() {
            pod.is_listed = true;
        }
    }

    /// Renumbers the frames for another boot of the machine.
    pub(super) fn shift(&mut self, shift: Shift) {
        for pod in self.tracked.values_mut() {
            pod.shift(shift);
        }
    }

    /// R: sum of all listed requests.
    pub fn bound(&self, resource: Resource) -> u64 {
        *self.bound.get(resource)
    }

    /// Rw: sum of the requests, each weighted by its pod's trust and rounded down.
    pub fn warm(&self, resource: Resource, timing: &Timing) -> u64 {
        let known = self.known.as_ref();
        let trusted = self.tracked.values();
        let trusted = trusted.map(|pod| pod.trusted(resource, timing, known).0);
        trusted.fold(0, u64::saturating_add)
    }

    /// Pods old enough to be added, with their own peak, to frames before their start. Pods that a profile describes
    /// are added by the forecast. A request that grew costs a pod its trust, not its peak: otherwise a larger request
    /// would create slack.
    pub(super) fn newcomers(&self, resource: Resource, timing: &Timing) -> Vec<Newcomer> {
        let known = self.known.as_ref();
        let is_added = |pod: &&TrackedPod| pod.seen >= timing.trust_from && !pod.has_profile(resource, known);
        let added = self.tracked.values().filter(is_added);
        added
            .map(|pod| Newcomer {
                birth: pod.birth,
                peak: pod.long_peak(resource),
            })
            .collect()
    }

    /// Trust per listed pod; 0 for pods that are not tracked.
    pub(super) fn trust(&self, listed: &BTreeMap<String, PodRequest>, timing: &Timing) -> Vec<Trust> {
        let known = self.known.as_ref();
        let trust = |uid: &String| {
            let pod = self.tracked.get(uid);
            let ppm = |resource| pod.map_or(0, |pod| pod.trusted(resource, timing, known).1);
            Trust {
                uid: uid.clone(),
                ppm: PerResource::from_fn(ppm),
            }
        };
        listed.keys().map(trust).collect()
    }
}

#[cfg(test)]
impl Pods {
    /// Size of each pod's rings, in bytes.
    pub(super) fn ring_bytes(&self) -> BTreeMap<String, usize> {
        let bytes = |pod: &TrackedPod| pod.low.cpu.bytes() + pod.low.memory.bytes();
        self.tracked
            .iter()
            .map(|(uid, pod)| (uid.clone(), bytes(pod)))
            .collect()
    }

    /// Size of all other pod state including UIDs, in bytes.
    pub(super) fn scalar_bytes(&self) -> usize {
        let sizes = self
            .tracked
            .keys()
            .map(|uid| size_of::<(String, TrackedPod)>() + uid.len());
        sizes.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Profile;

    const TIMING: Timing = Profile::Production.timing();

    fn request(cpu: u64) -> PodRequest {
        PodRequest {
            requests: PerResource { cpu, memory: 0 },
            ..PodRequest::default()
        }
    }

    fn used(cpu: u64) -> PodUse {
        let value = PerResource { cpu, memory: 0 };
        PodUse {
            low: value,
            high: value,
        }
    }

    fn frame(index: u64, uid: &str, cpu: u64) -> Frame {
        Frame {
            index,
            is_valid: true,
            pods: [(uid.to_owned(), used(cpu))].into(),
            ..Frame::default()
        }
    }

    /// A node with tracked pods and the server's list.
    struct Node {
        pods: Pods,
        listed: BTreeMap<String, PodRequest>,
    }

    impl Node {
        fn new(request: PodRequest) -> Self {
            let mut node = Self {
                pods: Pods::default(),
                listed: BTreeMap::new(),
            };
            node.list([("a".to_owned(), request)]);
            node
        }

        fn list(&mut self, listed: impl IntoIterator<Item = (String, PodRequest)>) {
            self.listed = listed.into_iter().collect();
            self.pods.follow(&self.listed);
        }

        fn end(&mut self, frame: &Frame) -> Vec<TrackedPod> {
            let changes = self.pods.end_frame(frame.index, frame, &self.listed, &TIMING);
            let left = changes.into_iter().filter_map(|change| match change {
                DepartureChange::Left(pod) => Some(pod),
                DepartureChange::Continued(_) => None,
            });
            left.collect()
        }

        fn warm(&self) -> u64 {
            self.pods.warm(Resource::Cpu, &TIMING)
        }
    }

    fn seen_for(frames: u64) -> Node {
        let mut node = Node::new(request(1000));
        for index in 0..frames {
            node.end(&frame(index, "a", 100));
        }
        node
    }

    #[test]
    fn trust_grows_between_two_hours_and_a_day() {
        for (frames, warm) in [(24, 0), (24 + 132, 500), (400, 1000)] {
            assert_eq!(seen_for(frames).warm(), warm);
        }
    }

    #[test]
    fn a_larger_request_resets_the_age_and_a_smaller_one_keeps_it() {
        for (asked, warm) in [(1001, 0), (999, 999)] {
            let mut node = seen_for(400);
            node.list([("a".to_owned(), request(asked))]);
            assert_eq!(node.warm(), warm);
        }
    }

    #[test]
    fn a_request_that_grew_in_one_resource_is_trusted_in_the_other() {
        let mut node = seen_for(400);
        let more_memory = PodRequest {
            requests: PerResource { cpu: 1000, memory: 1 },
            ..PodRequest::default()
        };
        node.list([("a".to_owned(), more_memory)]);
        let trust = node.pods.trust(&node.listed, &TIMING);
        assert_eq!((trust[0].ppm.cpu, trust[0].ppm.memory), (1_000_000, 0));
    }

    #[test]
    fn a_pod_listed_again_is_compared_with_its_last_request() {
        let mut node = seen_for(400);
        node.list([]);
        assert_eq!(node.warm(), 0);
        node.list([("a".to_owned(), request(1000))]);
        assert_eq!(node.warm(), 1000);
        node.list([]);
        node.list([("a".to_owned(), request(1001))]);
        assert_eq!(node.warm(), 0);
    }

    #[test]
    fn a_larger_request_keeps_the_pods_peak_in_earlier_frames() {
        let mut node = seen_for(30);
        let before = node.pods.newcomers(Resource::Cpu, &TIMING);
        node.list([("a".to_owned(), request(1001))]);
        assert_eq!(node.pods.newcomers(Resource::Cpu, &TIMING), before);
        assert_eq!(before.len(), 1);
    }

    /// The agent invalidates the frame in which the machine was suspended.
    #[test]
    fn an_invalid_frame_adds_no_age() {
        let mut node = seen_for(24 + 132);
        let mut void = frame(500, "a", 100);
        void.is_valid = false;
        node.end(&void);
        assert_eq!(node.warm(), 500);
        node.end(&frame(501, "a", 100));
        assert_eq!(node.warm(), 1000 * 133 / 264);
    }

    #[test]
    fn a_deleted_pod_stays_bound_but_is_not_trusted() {
        let mut node = seen_for(400);
        let deleted = PodRequest {
            is_deleting: true,
            ..request(1000)
        };
        node.list([("a".to_owned(), deleted)]);
        assert_eq!((node.pods.bound(Resource::Cpu), node.warm()), (1000, 0));
    }

    #[test]
    fn a_pod_with_exclusive_cpus_is_not_trusted_and_keeps_its_age() {
        let mut node = seen_for(400);
        let holding = PodRequest {
            is_guaranteed: true,
            has_own_cpus: true,
            ..request(1000)
        };
        node.list([("a".to_owned(), holding)]);
        assert_eq!((node.pods.bound(Resource::Cpu), node.warm()), (1000, 0));
        assert_eq!(node.pods.trust(&node.listed, &TIMING)[0].ppm.cpu, 0);
        node.list([("a".to_owned(), request(1000))]);
        assert_eq!(node.warm(), 1000);
    }

    #[test]
    fn a_pod_departs_when_neither_listed_nor_in_a_cgroup() {
        let mut node = seen_for(3);
        node.list([]);
        assert!(node.end(&frame(3, "a", 100)).is_empty());
        let empty = |index| Frame {
            index,
            is_valid: true,
            ..Frame::default()
        };
        let unmeasured = Frame {
            unmeasured: ["a".to_owned()].into(),
            ..empty(4)
        };
        assert!(node.end(&unmeasured).is_empty(), "its cgroup is there");
        let departed = node.end(&empty(5));
        assert_eq!(departed.len(), 1);
        assert_eq!(
            departed[0].low(Resource::Cpu).collect::<Vec<_>>(),
            vec![(0, 100), (1, 100), (2, 100), (3, 100)]
        );
        assert!(node.end(&empty(6)).is_empty());
    }

    #[test]
    fn a_listed_pod_without_a_cgroup_does_not_depart() {
        let mut node = seen_for(3);
        assert!(node.end(&frame(3, "b", 1)).is_empty());
        node.list([]);
        assert_eq!(node.end(&frame(4, "b", 1)).len(), 1);
    }

    /// The decay is specified in docs/estimator.md#pods.
    #[test]
    fn a_long_peak_halves_in_seven_days() {
        for (start, half, tolerance) in [(10_000, 5000_u64, 2), (100, 50, 1)] {
            let mut node = Node::new(request(1));
            node.end(&frame(0, "a", start));
            for index in 1..=2016 {
                node.end(&frame(index, "a", 0));
            }
            let peak = node.pods.newcomers(Resource::Cpu, &TIMING)[0].peak;
            assert!(peak.abs_diff(half) <= tolerance, "{start} decayed to {peak}");
        }
    }

    #[test]
    fn pods_beyond_the_limit_are_charged_but_not_tracked() {
        let all: BTreeMap<_, _> = (0..600).map(|i| (format!("{i:03}"), request(10))).collect();
        let mut node = Node::new(request(1));
        node.list(all.clone());
        let of = |index, uids: &[String]| Frame {
            index,
            is_valid: true,
            pods: uids.iter().map(|uid| (uid.clone(), used(5))).collect(),
            ..Frame::default()
        };
        let uids: Vec<String> = all.keys().cloned().collect();
        node.end(&of(0, &uids[100..]));
        assert_eq!(node.pods.bound(Resource::Cpu), 6000);
        assert_eq!(node.pods.tracked.len(), 500);
        for index in 1..400 {
            node.end(&of(index, &uids));
        }
        assert_eq!(node.pods.tracked.len(), MOST_TRACKED);
        assert_eq!(node.warm(), 5120, "those who came first, and some of the rest");
        assert!(uids[100..].iter().all(|uid| node.pods.tracked.contains_key(uid)));
        let trust = node.pods.trust(&node.listed, &TIMING);
        assert_eq!(
            (trust.len(), trust.iter().filter(|pod| pod.ppm.cpu == 0).count()),
            (600, 88)
        );
    }

    #[test]
    fn huge_requests_saturate() {
        let mut node = Node::new(request(u64::MAX));
        node.list(["a", "b"].map(|uid| (uid.to_owned(), request(u64::MAX))));
        for index in 0..400 {
            node.end(&frame(index, "a", u64::MAX));
        }
        assert_eq!(
            (node.pods.bound(Resource::Cpu), node.warm()),
            (u64::MAX, u64::MAX)
        );
        let peak = node.pods.newcomers(Resource::Cpu, &TIMING)[0].peak;
        assert_eq!(peak, u64::MAX >> FRACTION);
    }
}
