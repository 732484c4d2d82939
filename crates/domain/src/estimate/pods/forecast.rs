//! Expected use and trust of pods by the profiles of their workloads. See docs/estimator.md#trust-by-workload.

use std::collections::BTreeMap;

use super::{Pods, TrackedPod};
use crate::{
    resource::Resource,
    workload::{SLOTS, Workload, WorkloadProfile},
};

/// Knowledge of workloads that the webhook has sent: without it a node depends on its own observations alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownWorkloads {
    /// Frames between midnight of the webhook's clock and frame 0 of this machine, modulo a day.
    pub offset: u64,
    /// Frames in a day.
    pub frames_a_day: u64,
    /// Profiles by controller and version.
    pub profiles: BTreeMap<Workload, WorkloadProfile>,
}

/// Expected use of one pod in each hour slot.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// First frame in which the pod was observed.
    birth: u64,
    /// M × r, in milli-cores or bytes.
    mean: [u64; SLOTS],
    /// D × r.
    excess: [u64; SLOTS],
}

/// Expected use of the pods whose workload is known.
#[derive(Debug, Clone, Default)]
pub(in crate::estimate) struct Forecast {
    offset: u64,
    frames_a_day: u64,
    /// Descending by birth.
    pods: Vec<Expected>,
}

/// Sum of the expected use of some pods.
#[derive(Debug, Clone, Copy)]
pub(in crate::estimate) struct ExpectedSum {
    mean: [u64; SLOTS],
    squares: [u128; SLOTS],
}

impl ExpectedSum {
    const ZERO: Self = Self {
        mean: [0; SLOTS],
        squares: [0; SLOTS],
    };

    fn add(&mut self, pod: &Expected) {
        for (sum, mean) in self.mean.iter_mut().zip(pod.mean) {
            *sum = sum.saturating_add(mean);
        }
        for (sum, excess) in self.squares.iter_mut().zip(pod.excess) {
            *sum = sum.saturating_add(u128::from(excess) * u128::from(excess));
        }
    }

    /// Σ M × r + √Σ(D × r)², rounded up.
    fn at(&self, slot: usize) -> u64 {
        let mean = self.mean.get(slot).copied().unwrap_or_default();
        let squares = self.squares.get(slot).copied().unwrap_or_default();
        let root = squares.isqrt();
        let root = root + u128::from(root * root < squares);
        mean.saturating_add(u64::try_from(root).unwrap_or(u64::MAX))
    }
}

/// Walk from the newest to the oldest frame: pods are added in the frames before their birth.
pub(in crate::estimate) struct Unborn<'a> {
    forecast: &'a Forecast,
    next: usize,
    sum: ExpectedSum,
}

impl Unborn<'_> {
    /// Expected use of the pods that did not exist in `frame`.
    pub(in crate::estimate) fn at(&mut self, frame: u64) -> u64 {
        while let Some(pod) = self.forecast.pods.get(self.next).filter(|pod| pod.birth > frame) {
            self.sum.add(pod);
            self.next += 1;
        }
        if self.next == 0 {
            return 0;
        }
        self.sum.at(self.forecast.slot(frame))
    }
}

impl Forecast {
    /// Hour slot of a frame.
    pub(in crate::estimate) fn slot(&self, frame: u64) -> usize {
        let day = self.frames_a_day.max(1);
        let of_day = (frame % day + self.offset % day) % day;
        let slots = u64::try_from(SLOTS).unwrap_or(u64::MAX);
        usize::try_from(of_day * slots / day).unwrap_or_default()
    }

    /// Start of a walk over frames.
    pub(in crate::estimate) const fn unborn(&self) -> Unborn<'_> {
        Unborn {
            forecast: self,
            next: 0,
            sum: ExpectedSum::ZERO,
        }
    }

    /// The largest expected use of all pods in a slot for which `is_missing` is true.
    pub(in crate::estimate) fn highest(&self, is_missing: impl Fn(usize) -> bool) -> Option<u64> {
        let mut sum = ExpectedSum::ZERO;
        for pod in &self.pods {
            sum.add(pod);
        }
        (0..SLOTS)
            .filter(|slot| is_missing(*slot))
            .map(|slot| sum.at(slot))
            .max()
    }
}

/// `amount` × `ppm` / 10⁶, rounded up.
fn part(amount: u64, ppm: u32) -> u64 {
    let part = (u128::from(amount) * u128::from(ppm)).div_ceil(1_000_000);
    u64::try_from(part).unwrap_or(u64::MAX)
}

impl TrackedPod {
    /// Profile of the pod: its workload is trusted, and a valid frame of the pod was measured.
    fn profile<'a>(
        &self,
        resource: Resource,
        known: Option<&'a KnownWorkloads>,
    ) -> Option<&'a WorkloadProfile> {
        let profile = known?.profiles.get(&self.request.workload?)?;
        let is_trusted = self.seen > 0 && *profile.trust_ppm.get(resource) > 0;
        (is_trusted && self.requested(resource) > 0).then_some(profile)
    }

    /// Trusted part of the request by the workload, in milli-cores or bytes, and in ppm of the request.
    pub(super) fn trusted_by_workload(
        &self,
        resource: Resource,
        known: Option<&KnownWorkloads>,
    ) -> Option<(u64, u32)> {
        let profile = self.profile(resource, known)?;
        let request = self.requested(resource);
        let smaller = request.min(*profile.request.get(resource));
        let trusted = u128::from(smaller) * u128::from(*profile.trust_ppm.get(resource)) / 1_000_000;
        let ppm = trusted * 1_000_000 / u128::from(request.max(1));
        Some((
            u64::try_from(trusted).unwrap_or(u64::MAX),
            u32::try_from(ppm).unwrap_or(1_000_000),
        ))
    }

    fn expected(&self, resource: Resource, known: Option<&KnownWorkloads>) -> Option<Expected> {
        let hourly = self.profile(resource, known)?.hourly.get(resource);
        let (request, highest) = (self.requested(resource), hourly.highest());
        let used = |slot| hourly.slot(slot).unwrap_or(highest);
        // A pod that has used more than its workload's largest use is expected to use more in every hour.
        let most = part(request, hourly.highest_sum_ppm()).max(1);
        let peak = self.long_peak(resource).max(most);
        let scaled = |ppm| {
            let amount = u128::from(part(request, ppm)) * u128::from(peak);
            u64::try_from(amount.div_ceil(most.into())).unwrap_or(u64::MAX)
        };
        Some(Expected {
            birth: self.birth,
            mean: std::array::from_fn(|slot| scaled(used(slot).mean_ppm)),
            excess: std::array::from_fn(|slot| scaled(used(slot).excess_ppm)),
        })
    }

    /// True if a profile describes the pod.
    pub(super) fn has_profile(&self, resource: Resource, known: Option<&KnownWorkloads>) -> bool {
        self.profile(resource, known).is_some()
    }
}

impl Pods {
    /// Replaces the knowledge of workloads; `None` without any.
    pub(in crate::estimate) fn set_workloads(&mut self, known: Option<KnownWorkloads>) {
        self.known = known;
    }

    /// Expected use of the pods that profiles describe.
    pub(in crate::estimate) fn forecast(&self, resource: Resource) -> Forecast {
        let Some(known) = &self.known else {
            return Forecast::default();
        };
        let pods = self.tracked.values();
        let mut pods: Vec<Expected> = pods
            .filter_map(|pod| pod.expected(resource, Some(known)))
            .collect();
        pods.sort_unstable_by_key(|pod| std::cmp::Reverse(pod.birth));
        Forecast {
            offset: known.offset,
            frames_a_day: known.frames_a_day,
            pods,
        }
    }

    /// Requests of the pods whose workload is trusted; 0 without knowledge of workloads.
    pub(in crate::estimate) fn requests_of_known(&self, resource: Resource) -> u64 {
        let known = self.known.as_ref();
        let pods = self.tracked.values().filter(|pod| pod.is_listed);
        pods.filter(|pod| pod.has_profile(resource, known))
            .fold(0, |sum, pod| sum.saturating_add(pod.requested(resource)))
    }
}
