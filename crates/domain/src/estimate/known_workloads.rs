//! Effect of the knowledge of workloads on the estimator: expected peaks and coverage of a node without its own day.

use super::{Estimator, Frame, KnownWorkloads, Peak, ppm};
use crate::resource::{PerResource, Resource};

/// Most of the ring that knowledge of workloads replaces, in percent.
const MOST_REPLACED_PERCENT: u64 = 80;
/// Part of the ring that must be valid before: six frames of a day.
const LEAST_VALID: u32 = 48;

/// Peak that the mean use of pods does not explain: the system, and bursts within a frame. It decays by 1/ring per
/// valid frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Unexplained(Option<u64>);

impl Unexplained {
    fn observe(&mut self, rest: u64, ring_frames: u32) {
        let before = self
            .0
            .map_or(0, |before| before - before / u64::from(ring_frames.max(1)));
        self.0 = Some(rest.max(before));
    }
}

impl Estimator {
    /// Replaces the knowledge of workloads; `None` once it is too old. Without it, the node counts on its own
    /// observations alone.
    pub fn set_workloads(&mut self, known: Option<KnownWorkloads>) {
        if known.is_none() {
            self.replaced_frames = PerResource::default();
        }
        self.pods.set_workloads(known);
        self.retarget(false);
    }

    /// Records the peak beyond the pods' use, and the frames that knowledge of workloads replaces: the share of R that
    /// pods of trusted workloads hold, at most 80 %, from the sixth valid frame on.
    pub(super) fn explain(&mut self, frame: &Frame) {
        let ring = self.timing.ring_frames;
        for resource in Resource::ALL {
            if frame.is_valid {
                let used = frame.pods.values().map(|used| *used.low.get(resource));
                let used = used.fold(0, u64::saturating_add);
                let rest = frame.peak.get(resource).saturating_sub(used);
                self.unexplained.get_mut(resource).observe(rest, ring);
            }
            let known = self.pods.requests_of_known(resource);
            let is_measured = self.history.get(resource).valid_frames() >= (ring / LEAST_VALID).max(1);
            let share = ppm(known, self.pods.bound(resource)).into();
            let most = MOST_REPLACED_PERCENT * 10_000;
            let replaced = u64::from(ring) * Ord::min(share, most) / 1_000_000;
            *self.replaced_frames.get_mut(resource) = if is_measured && known > 0 {
                u32::try_from(replaced).unwrap_or(ring)
            } else {
                0
            };
        }
    }

    /// Frames that count for coverage: valid ones, or as many as knowledge of workloads replaces.
    pub(super) fn counted_frames(&self, resource: Resource) -> u32 {
        let valid = self.history.get(resource).valid_frames();
        valid.max(*self.replaced_frames.get(resource))
    }

    /// Conditioned peak. In hour slots that the node has not measured, the pods of known workloads are expected to use
    /// what their profiles contain, in addition to the unexplained peak and the peaks of the other pods.
    pub(super) fn peak(&self, resource: Resource) -> Option<Peak> {
        let history = self.history.get(resource);
        let newcomers = self.pods.newcomers(resource, &self.timing);
        let forecast = self.pods.forecast(resource);
        let others = newcomers
            .iter()
            .fold(0_u64, |sum, other| sum.saturating_add(other.peak));
        let peak = history.peak_with(resource, newcomers, &forecast, self.timing.climb_frames)?;
        if *self.replaced_frames.get(resource) == 0 {
            return Some(peak);
        }
        let measured = history.measured_slots(&forecast);
        let is_missing = |slot: usize| !measured.get(slot).copied().unwrap_or(true);
        let Unexplained(rest) = *self.unexplained.get(resource);
        let expected = forecast.highest(is_missing).map_or(0, |expected| {
            expected
                .saturating_add(others)
                .saturating_add(rest.unwrap_or_default())
        });
        Some(Peak {
            highest: peak.highest.max(expected),
            ..peak
        })
    }
}
