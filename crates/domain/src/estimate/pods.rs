//! The pods of a node: how long they have been seen, what they used, and how far their requests are trusted.

use std::collections::{BTreeMap, VecDeque};

use super::{Frame, PodRequest, PodUse, Timing, history::Newcomer};
use crate::resource::{PerResource, Resource};

/// Most pods that are tracked; further ones are charged in full and nothing of theirs is ever subtracted.
const MOST_TRACKED: usize = 512;
/// Fraction bits of a long peak.
const FRACTION: u32 = 16;

/// How far one pod's requests are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// The pod's UID.
    pub uid: String,
    /// Trust in ppm; 0 for a pod that is being deleted.
    pub ppm: u32,
}

/// What is known of one pod.
#[derive(Debug)]
pub(super) struct Pod {
    request: Option<PodRequest>,
    /// Frame in which its use was first seen.
    birth: Option<u64>,
    /// Valid frames observed since its request last grew.
    age: u32,
    /// Low estimates by frame.
    low: VecDeque<(u64, PerResource<u64>)>,
    /// Decaying peak of the high estimate, with [`FRACTION`] fraction bits.
    peak: PerResource<u128>,
}

impl Pod {
    /// The pod's low estimates of one resource, by frame.
    pub(super) fn low(&self, resource: Resource) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.low
            .iter()
            .map(move |(index, low)| (*index, *low.get(resource)))
    }

    /// c: trusted parts of the trust span.
    fn trusted(&self, timing: &Timing) -> u32 {
        match self.request {
            Some(PodRequest {
                is_deleting: false, ..
            }) => self
                .age
                .saturating_sub(timing.trust_from)
                .min(timing.trust_span()),
            Some(_) | None => 0,
        }
    }

    /// e: the long peak, rounded up.
    fn long_peak(&self, resource: Resource) -> u64 {
        u64::try_from(self.peak.get(resource).div_ceil(1 << FRACTION)).unwrap_or(u64::MAX)
    }

    fn observe(&mut self, frame: &Frame, used: &PodUse, timing: &Timing) {
        self.birth.get_or_insert(frame.index);
        self.low.push_back((frame.index, used.low));
        let oldest = (frame.index + 1).saturating_sub(u64::from(timing.ring_frames));
        while self.low.front().is_some_and(|&(index, _)| index < oldest) {
            self.low.pop_front();
        }
        if frame.is_valid {
            self.age = self.age.saturating_add(1);
        }
        for resource in Resource::ALL {
            let peak = self.peak.get_mut(resource);
            let decayed = *peak - *peak / u128::from(timing.peak_decay.max(1));
            *peak = decayed.max(u128::from(*used.high.get(resource)) << FRACTION);
        }
    }
}

/// All pods of a node, by UID.
#[derive(Debug, Default)]
pub struct Pods {
    pods: BTreeMap<String, Pod>,
}

impl Pods {
    /// Follows the server's list: new pods appear, grown requests start their age anew.
    pub fn follow(&mut self, listed: &BTreeMap<String, PodRequest>) {
        for (uid, pod) in &mut self.pods {
            let request = listed.get(uid).copied();
            if let (Some(before), Some(after)) = (pod.request, request) {
                let has_grown = Resource::ALL
                    .into_iter()
                    .any(|resource| after.requests.get(resource) > before.requests.get(resource));
                if has_grown {
                    pod.age = 0;
                }
            }
            pod.request = request;
        }
        for (uid, request) in listed {
            if !self.pods.contains_key(uid) {
                self.pods.insert(uid.clone(), Pod::listed(*request));
            }
        }
    }

    /// Takes a frame in and returns the pods that have left: neither listed nor with a cgroup any more.
    pub(super) fn end_frame(&mut self, frame: &Frame, timing: &Timing) -> Vec<Pod> {
        let mut tracked = self.pods.values().filter(|pod| pod.birth.is_some()).count();
        for (uid, used) in &frame.pods {
            if let Some(pod) = self.pods.get_mut(uid) {
                if pod.birth.is_none() {
                    if tracked >= MOST_TRACKED {
                        continue;
                    }
                    tracked += 1;
                }
                pod.observe(frame, used, timing);
            }
        }
        let gone: Vec<String> = self
            .pods
            .iter()
            .filter(|(uid, pod)| pod.request.is_none() && !frame.pods.contains_key(*uid))
            .map(|(uid, _)| uid.clone())
            .collect();
        gone.iter().filter_map(|uid| self.pods.remove(uid)).collect()
    }

    /// R: the sum of all listed requests.
    pub fn bound(&self, resource: Resource) -> u64 {
        self.requests(resource).fold(0, u64::saturating_add)
    }

    /// Rw: the sum of requests, each weighted by its pod's trust and rounded down.
    pub fn warm(&self, resource: Resource, timing: &Timing) -> u64 {
        let span = u128::from(timing.trust_span());
        self.pods.values().fold(0, |sum, pod| {
            let request = pod.request.map_or(0, |request| *request.requests.get(resource));
            let warm = u128::from(request) * u128::from(pod.trusted(timing)) / span;
            sum.saturating_add(u64::try_from(warm).unwrap_or(u64::MAX))
        })
    }

    /// The pods old enough to be added, at their own peak, to frames that have not seen them.
    pub(super) fn newcomers(&self, resource: Resource, timing: &Timing) -> Vec<Newcomer> {
        self.pods
            .values()
            .filter(|pod| pod.age >= timing.trust_from)
            .filter_map(|pod| {
                Some(Newcomer {
                    birth: pod.birth?,
                    peak: pod.long_peak(resource),
                })
            })
            .collect()
    }

    /// Trust per listed pod.
    pub fn trust(&self, timing: &Timing) -> Vec<Trust> {
        let ppm = |pod: &Pod| {
            let ppm = u64::from(pod.trusted(timing)) * 1_000_000 / u64::from(timing.trust_span());
            u32::try_from(ppm).unwrap_or(1_000_000)
        };
        let listed = self.pods.iter().filter(|(_, pod)| pod.request.is_some());
        listed
            .map(|(uid, pod)| Trust {
                uid: uid.clone(),
                ppm: ppm(pod),
            })
            .collect()
    }

    fn requests(&self, resource: Resource) -> impl Iterator<Item = u64> + '_ {
        self.pods
            .values()
            .filter_map(move |pod| Some(*pod.request?.requests.get(resource)))
    }
}

impl Pod {
    const fn listed(request: PodRequest) -> Self {
        Self {
            request: Some(request),
            birth: None,
            age: 0,
            low: VecDeque::new(),
            peak: PerResource { cpu: 0, memory: 0 },
        }
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
            is_deleting: false,
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

    fn seen_for(frames: u64) -> Pods {
        let mut pods = Pods::default();
        pods.follow(&[("a".to_owned(), request(1000))].into());
        for index in 0..frames {
            pods.end_frame(&frame(index, "a", 100), &TIMING);
        }
        pods
    }

    #[test]
    fn trust_grows_between_two_hours_and_a_day() {
        assert_eq!(seen_for(24).warm(Resource::Cpu, &TIMING), 0);
        assert_eq!(seen_for(24 + 132).warm(Resource::Cpu, &TIMING), 500);
        assert_eq!(seen_for(400).warm(Resource::Cpu, &TIMING), 1000);
    }

    #[test]
    fn a_grown_request_starts_its_age_anew() {
        let mut pods = seen_for(400);
        pods.follow(&[("a".to_owned(), request(1001))].into());
        assert_eq!(pods.warm(Resource::Cpu, &TIMING), 0);
        let mut pods = seen_for(400);
        pods.follow(&[("a".to_owned(), request(999))].into());
        assert_eq!(pods.warm(Resource::Cpu, &TIMING), 999);
    }

    #[test]
    fn a_deleted_pod_stays_bound_but_is_not_trusted() {
        let mut pods = seen_for(400);
        pods.follow(
            &[(
                "a".to_owned(),
                PodRequest {
                    is_deleting: true,
                    ..request(1000)
                },
            )]
            .into(),
        );
        assert_eq!(
            (pods.bound(Resource::Cpu), pods.warm(Resource::Cpu, &TIMING)),
            (1000, 0)
        );
    }

    #[test]
    fn a_pod_departs_when_neither_listed_nor_in_a_cgroup() {
        let mut pods = seen_for(3);
        pods.follow(&BTreeMap::new());
        assert!(pods.end_frame(&frame(3, "a", 100), &TIMING).is_empty());
        let departed = pods.end_frame(
            &Frame {
                index: 4,
                is_valid: true,
                ..Frame::default()
            },
            &TIMING,
        );
        assert_eq!(departed.len(), 1);
        assert_eq!(
            departed[0].low(Resource::Cpu).collect::<Vec<_>>(),
            vec![(0, 100), (1, 100), (2, 100), (3, 100)]
        );
    }

    #[test]
    fn a_long_peak_halves_in_seven_days() {
        for (start, half, tolerance) in [(10_000, 5000_u64, 2), (100, 50, 1)] {
            let mut pods = Pods::default();
            pods.follow(&[("a".to_owned(), request(1))].into());
            pods.end_frame(&frame(0, "a", start), &TIMING);
            for index in 1..=2016 {
                pods.end_frame(&frame(index, "a", 0), &TIMING);
            }
            let peak = pods.newcomers(Resource::Cpu, &TIMING)[0].peak;
            assert!(peak.abs_diff(half) <= tolerance, "{start} decayed to {peak}");
        }
    }

    #[test]
    fn pods_beyond_the_limit_are_charged_but_not_tracked() {
        let listed: BTreeMap<_, _> = (0..600).map(|i| (format!("{i:03}"), request(10))).collect();
        let mut pods = Pods::default();
        pods.follow(&listed);
        let frame = Frame {
            is_valid: true,
            pods: listed.keys().map(|uid| (uid.clone(), used(5))).collect(),
            ..Frame::default()
        };
        pods.end_frame(&frame, &TIMING);
        assert_eq!(pods.bound(Resource::Cpu), 6000);
        assert_eq!(
            pods.pods.values().filter(|pod| pod.birth.is_some()).count(),
            MOST_TRACKED
        );
    }
}
