//! The estimator: computes from measured slack how far a node may be amplified. The agent runs it. It is pure, uses
//! only integers, and follows docs/estimator.md.
//!
//! ```text
//! frames (node peak, pod use) -> History -> conditioned peak P0 -> P ┐
//! View (raw A, capacity C, requests, from the server) ---------------┴-> target -> Publication <- Brakes
//! ```
//!
//! CPU counts in milli-cores, memory in bytes, ratios in cents, fractions in ppm. Divisions round down unless noted
//! otherwise; sums saturate; products are 128 bits wide.

mod brake;
mod departure;
mod frame_renumbering;
mod history;
mod known_workloads;
mod low_ring;
mod margin_calibrator;
mod percentile;
mod pods;
mod publish;
mod result;
mod snapshot;
mod succession;
mod target;
mod view;
mod visibility;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub use self::{
    brake::{Brakes, CpuPressure, MemoryPressure, Pressure, spare_ppm},
    departure::after_departures,
    history::{History, Peak},
    margin_calibrator::{
        LARGEST_ACCUMULATOR_PPM, LARGEST_MARGIN_PPM, MARGIN_PPM, MarginCalibrator, UNCALIBRATED_PPM,
    },
    percentile::nearest_rank_p99,
    pods::{KnownWorkloads, MOST_TRACKED, Pods, Trust},
    publish::Publication,
    result::{Estimate, confidence_ppm},
    snapshot::{Boot, Lapse, ResumeError, Snapshot},
    succession::Lineage,
    target::{Inputs, Slack, Target, floor_cents, safe_use, slack, target},
    view::{PodRequest, View},
    visibility::Visibility,
};
use self::{known_workloads::Unexplained, pods::DepartureChange};
use crate::{
    hint::{Brake, Progress},
    policy::Bounds,
    ratio::Cents,
    resource::{PerResource, Resource},
};
pub use crate::{
    hint::{Reason, Stage},
    timing::{FRAME_SECONDS, FRAMES_A_DAY, FRAMES_AN_HOUR, Profile, Rise, STEP, Timing},
};

/// Least margin on the predicted peak when only procfs is measured, in ppm. See
/// docs/estimator.md#what-survives-a-restart.
pub const MARGIN_PROC_PPM: u32 = 200_000;
/// Highest ratio when only procfs is measured. See docs/estimator.md#what-survives-a-restart.
pub const HIGHEST_PROC: Cents = Cents(150);

/// Use of one pod in one frame. Only `low` is ever subtracted, only `high` is ever added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodUse {
    /// Low estimate: mean CPU, and memory that is freed when the pod leaves.
    pub low: PerResource<u64>,
    /// High estimate: mean CPU, and memory with half of the active page cache.
    pub high: PerResource<u64>,
}

/// Measurements of one frame, by node and by pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Number of the frame: boot time divided by the frame's length.
    pub index: u64,
    /// False if there were too few samples, or if time or capacity jumped.
    pub is_valid: bool,
    /// True if part of an invalid frame was measured: its peak was at least [`Self::peak`].
    pub is_bound: bool,
    /// F: peak statistic of the node.
    pub peak: PerResource<u64>,
    /// Use per pod UID, for pods with a cgroup.
    pub pods: BTreeMap<String, PodUse>,
    /// UIDs of pods with a cgroup whose use is unknown; they have not left.
    pub unmeasured: BTreeSet<String>,
}

/// Estimator of one node, for both resources.
#[derive(Debug)]
pub struct Estimator {
    timing: Timing,
    visibility: Visibility,
    view: Option<View>,
    /// Limit of demand from the last view: C for CPU, A for memory. It is kept when the view is lost, because earlier
    /// ratios are still in use then and can cause incidents.
    limits: PerResource<Option<u64>>,
    pods: Pods,
    history: PerResource<History>,
    outcomes: PerResource<MarginCalibrator>,
    publication: PerResource<Publication>,
    brakes: Brakes,
    derived: PerResource<Option<Derived>>,
    unexplained: PerResource<Unexplained>,
    /// Frames of the ring that knowledge of workloads replaces.
    replaced_frames: PerResource<u32>,
}

/// Peak and target last derived for one resource.
#[derive(Debug)]
struct Derived {
    peak: Option<Peak>,
    target: Target,
}

impl Estimator {
    /// Estimator without any history; both ratios are 1.00.
    pub fn new(timing: Timing) -> Self {
        Self {
            visibility: Visibility::ALL,
            view: None,
            limits: PerResource::default(),
            pods: Pods::default(),
            history: PerResource::from_fn(|_| History::new(timing.ring_frames)),
            outcomes: PerResource::from_fn(|_| MarginCalibrator::new(&timing)),
            publication: PerResource::default(),
            brakes: Brakes::new(&timing),
            derived: PerResource::default(),
            unexplained: PerResource::default(),
            replaced_frames: PerResource::default(),
            timing,
        }
    }

    /// Timing profile and its durations.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The webhook's view in force; `None` before the first or after a loss.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// Sets the kinds of measurement available from now on. They determine the least margin, the highest ratio and
    /// the permission to rise. It takes effect with the next view, frame or brake period.
    pub fn set_visibility(&mut self, visibility: Visibility) {
        self.visibility = visibility;
    }

    /// Switches the calibration of the margin on or off, and resets the margin.
    pub fn reset_outcomes(&mut self, is_on: bool) {
        for resource in Resource::ALL {
            self.outcomes.get_mut(resource).reset(&self.timing, is_on);
        }
        self.retarget(false);
    }

    /// Applies a new view and lowers the ratio at once if it requires that: a pod that is being deleted loses its
    /// trust, and a pod whose request grew starts again at age 0. Requests may exceed the node and may shrink; the
    /// untrusted part that a shrinking request gives up is free at once.
    pub fn set_view(&mut self, view: View) {
        self.pods.follow(&view.pods);
        self.limits = PerResource {
            cpu: Some(view.capacity.cpu),
            memory: Some(view.raw.memory),
        };
        self.view = Some(view);
        self.retarget(false);
    }

    /// Drops the view: nothing is amplified until the next one, and then the ratio rises in small steps.
    pub fn clear_view(&mut self) {
        if self.view.take().is_some() {
            for resource in Resource::ALL {
                self.publication.get_mut(resource).stop();
            }
        }
        self.derived = PerResource::default();
    }

    /// Records a frame and moves the publication. A duplicate or late frame changes nothing.
    pub fn end_frame(&mut self, frame: &Frame) {
        let index = self.number(frame.index);
        if self.history.cpu.last_frame().is_some_and(|last| last >= index) {
            return;
        }
        for resource in Resource::ALL {
            let peak = *frame.peak.get(resource);
            let history = self.history.get_mut(resource);
            if frame.is_bound && !frame.is_valid {
                history.push_bound(index, peak);
            } else {
                history.push(index, peak, frame.is_valid);
            }
            let exceeds = |limit: u64| (frame.is_valid || frame.is_bound) && peak > limit;
            let has_exceeded = self.limits.get(resource).is_some_and(exceeds);
            self.outcomes.get_mut(resource).evaluate(index, has_exceeded);
        }
        let none = BTreeMap::new();
        let listed = self.view.as_ref().map_or(&none, |view| &view.pods);
        for change in self.pods.end_frame(index, frame, listed, &self.timing) {
            for resource in Resource::ALL {
                let history = self.history.get_mut(resource);
                match &change {
                    DepartureChange::Left(pod) => history.depart(pod.low(resource)),
                    DepartureChange::Continued(pod) => history.take_back(pod.low(resource)),
                }
            }
        }
        self.explain(frame);
        self.retarget(true);
        // Last, so that an incident of this frame does not count against a decision that begins with it.
        for resource in Resource::ALL {
            let raw = self.view.as_ref().map(|view| *view.raw.get(resource));
            let is_in_use = raw.is_some_and(|raw| self.pods.bound(resource) > raw);
            self.outcomes.get_mut(resource).decide(index, is_in_use);
        }
    }

    /// Evaluates one brake period. `now` is monotonic time.
    pub fn end_brake_period(&mut self, pressure: &Pressure, now: Duration) {
        self.visibility = pressure.visibility;
        self.brakes.end_period(pressure, now);
        let last = self.history.cpu.last_frame().unwrap_or_default();
        for resource in Resource::ALL {
            if self.brakes.has_stopped(resource) {
                self.outcomes.get_mut(resource).incident(last);
            }
            let floor = self.view.as_ref().map_or(0, |view| {
                floor_cents(*view.admitted.get(resource), *view.raw.get(resource)).0
            });
            let brake = self.brakes.level(resource);
            self.publication.get_mut(resource).brake(brake, floor);
        }
        self.retarget(false);
    }

    /// Prolongs the active brakes by a time without measurements, up to `now` in monotonic time.
    pub fn prolong_brakes(&mut self, unseen: Duration, now: Duration) {
        self.brakes.prolong(unseen, now);
    }

    /// Current estimates for both resources; reads only.
    pub fn estimates(&self) -> PerResource<Estimate> {
        PerResource::from_fn(|resource| self.estimate(resource))
    }

    /// Trust per pod, from which the webhook lowers ratios when pods leave; empty without a view.
    pub fn trust(&self) -> Vec<Trust> {
        let view = self.view.as_ref();
        view.map_or_else(Vec::new, |view| self.pods.trust(&view.pods, &self.timing))
    }

    /// Frames that count as a share of the frames in the ring, in ppm.
    pub fn coverage_ppm(&self, resource: Resource) -> u32 {
        ppm(
            self.counted_frames(resource).into(),
            self.timing.ring_frames.into(),
        )
    }

    /// Frame numbers start at one ring's length, so that frames of an earlier boot have numbers too.
    fn number(&self, index: u64) -> u64 {
        index.saturating_add(self.timing.ring_frames.into())
    }

    /// m: margin to apply, in ppm.
    fn margin_ppm(&self, resource: Resource) -> u32 {
        let least_ppm = self.visibility.least_margin_ppm();
        self.outcomes.get(resource).margin_ppm().max(least_ppm)
    }

    /// Ratio to apply; 1.00 without a view.
    fn published(&self, resource: Resource) -> Cents {
        self.view
            .as_ref()
            .map_or(Cents::ONE, |_| self.publication.get(resource).published())
    }

    /// Recomputes the targets and moves the publication towards them; it rises only at frame ends.
    fn retarget(&mut self, is_frame_end: bool) {
        let Some(view) = &self.view else { return };
        let mut derived = PerResource::default();
        for resource in Resource::ALL {
            let peak = self.peak(resource);
            let slack = slack(&Inputs {
                resource,
                capacity: *view.capacity.get(resource),
                raw: *view.raw.get(resource),
                target_ppm: *view.target_ppm.get(resource),
                peak: peak.map_or(0, |peak| peak.expected()),
                margin_ppm: self.margin_ppm(resource),
                warm_requests: self.pods.warm(resource, &self.timing),
                bound: self.pods.bound(resource),
            });
            let Bounds { min, max } = *view.bounds.get(resource);
            let bounds = Bounds {
                min,
                max: self.visibility.highest(resource, max),
            };
            let mut target = target(
                &slack,
                self.counted_frames(resource),
                self.timing.ring_frames,
                bounds,
                self.outcomes.get(resource).is_latched(),
            );
            if !self.visibility.can_brake(resource) {
                target.reasons.push(Reason::NoBrake);
            }
            let is_held = self.brakes.level(resource) >= Brake::Hold || !self.visibility.may_rise(resource);
            self.publication.get_mut(resource).step(
                target.cents,
                bounds.max,
                is_frame_end,
                is_held,
                self.timing.rise(),
            );
            *derived.get_mut(resource) = Some(Derived { peak, target });
        }
        self.derived = derived;
    }

    fn estimate(&self, resource: Resource) -> Estimate {
        let outcome = self.outcomes.get(resource);
        let coverage_ppm = self.coverage_ppm(resource);
        let unknown = Estimate {
            target: Cents::ONE,
            published: Cents::ONE,
            coverage_ppm,
            margin_ppm: self.margin_ppm(resource),
            accumulator_ppm: outcome.accumulator_ppm(),
            is_latched: outcome.is_latched(),
            brake: self.brakes.level(resource),
            progress: Progress {
                stepped: Cents::ONE,
                agreeing_frames: 0,
            },
            reasons: vec![Reason::NoDirective],
            ..Estimate::default()
        };
        let (Some(view), Some(derived)) = (&self.view, self.derived.get(resource)) else {
            return unknown;
        };
        let Derived { peak, target } = derived;
        let published = self.published(resource);
        let mut reasons = Vec::new();
        reasons.extend(self.brakes.reason(resource));
        reasons.extend(target.reasons.iter().copied());
        if published < target.cents {
            reasons.push(Reason::Rising);
        }
        Estimate {
            capacity: *view.capacity.get(resource),
            raw: *view.raw.get(resource),
            slack: target.slack,
            peak: *peak,
            target: target.cents,
            published,
            progress: self.publication.get(resource).progress(),
            confidence_ppm: confidence_ppm(coverage_ppm, target.slack.warm_requests, target.slack.bound),
            reasons,
            ..unknown
        }
    }
}

/// `part` / `whole` in ppm, at most 1,000,000; 0 if `whole` is 0 and `part` is 0.
fn ppm(part: u64, whole: u64) -> u32 {
    let ppm = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u32::try_from(ppm).unwrap_or(u32::MAX).min(1_000_000)
}

#[cfg(test)]
mod tests;
