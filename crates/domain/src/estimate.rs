//! How far a node may be amplified: measured slack, per agent.md, section 2.3; pure and in integers.
//!
//! ```text
//! frames (node peak, pod use) -> History -> conditioned peak P0 -> P ┐
//! View (raw A, capacity C, requests, from the server) ---------------┴-> target -> Publication <- Brakes
//! ```
//!
//! CPU counts in milli-cores, memory in bytes, ratios in cents, fractions in ppm. Divisions round down unless
//! said otherwise; sums saturate; products are 128 bits wide.

mod brake;
mod history;
mod pods;
mod publish;
mod target;
mod timing;

use std::collections::BTreeMap;

pub use self::{
    brake::{Brakes, CpuPressure, MemoryPressure, Pressure},
    history::History,
    pods::{Pods, Trust},
    publish::Publication,
    target::{Inputs, Slack, Target, floor_cents, slack, target},
    timing::{Profile, Timing, nearest_rank_p99},
};
use crate::{
    hint::Brake,
    policy::Bounds,
    ratio::Cents,
    resource::{PerResource, Resource},
};

/// The margin on the predicted peak, in ppm. See agent.md, section 2.5: also its lower limit.
pub const MARGIN_PPM: u32 = 100_000;
/// The margin on the predicted peak on the word of procfs alone, in ppm. See agent.md, section 2.6.
pub const MARGIN_PROC_PPM: u32 = 200_000;
/// The highest ratio on the word of procfs alone. See agent.md, section 2.6.
pub const HIGHEST_PROC: Cents = Cents(150);

/// What one pod used in one frame. `low` is the only value ever subtracted, `high` the only one ever added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodUse {
    /// Low estimate: mean CPU, and memory that goes away with the pod.
    pub low: PerResource<u64>,
    /// High estimate: mean CPU, and memory with half of the active page cache.
    pub high: PerResource<u64>,
}

/// What was measured in one frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Number of the frame: boot time divided by the frame's length.
    pub index: u64,
    /// False if too few samples came in, or time or capacity jumped.
    pub is_valid: bool,
    /// F: the node's peak statistic.
    pub peak: PerResource<u64>,
    /// Use per pod UID, of the pods whose cgroup is there.
    pub pods: BTreeMap<String, PodUse>,
}

/// One pod as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodRequest {
    /// r: the request as the scheduler counts it.
    pub requests: PerResource<u64>,
    /// True once the pod has a deletion timestamp.
    pub is_deleting: bool,
}

/// What the server told about the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Generation of the pod store behind it.
    pub generation: u64,
    /// C: physical capacity, as this machine has it.
    pub capacity: PerResource<u64>,
    /// A: raw allocatable.
    pub raw: PerResource<u64>,
    /// The pods bound to the node and not ended, by UID.
    pub pods: BTreeMap<String, PodRequest>,
    /// Bounds of the ratio.
    pub bounds: PerResource<Bounds>,
    /// theta, in ppm.
    pub target_ppm: PerResource<u32>,
}

/// Everything about one resource that a report says and `explain` derives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Estimate {
    /// C.
    pub capacity: u64,
    /// A.
    pub raw: u64,
    /// T, P0, P, Rw, R, S and what follows from them.
    pub slack: Slack,
    /// The ratio the publication moves towards.
    pub target: Cents,
    /// The ratio to apply.
    pub published: Cents,
    /// Share of the ring that is valid, in ppm.
    pub coverage_ppm: u32,
    /// The margin, in ppm.
    pub margin_ppm: u32,
    /// The brake in force.
    pub brake: Brake,
    /// Reason codes, most important first.
    pub reasons: Vec<&'static str>,
}

/// The estimator of one node.
#[derive(Debug)]
pub struct Estimator {
    timing: Timing,
    margin_ppm: u32,
    highest: Cents,
    view: Option<View>,
    pods: Pods,
    history: PerResource<History>,
    publication: PerResource<Publication>,
    brakes: Brakes,
    targets: PerResource<Option<Target>>,
}

impl Estimator {
    /// An estimator that knows nothing yet.
    pub fn new(timing: Timing) -> Self {
        Self {
            margin_ppm: MARGIN_PPM,
            highest: Cents(u32::MAX),
            view: None,
            pods: Pods::default(),
            history: PerResource::from_fn(|_| History::new(timing.ring_frames)),
            publication: PerResource::default(),
            brakes: Brakes::new(timing.brake_release),
            targets: PerResource::default(),
            timing,
        }
    }

    /// The timing in force.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The server's view in force, if any has come.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// Says whether the kernel programs are counting; without them margin and highest ratio are stricter.
    pub fn set_sees_kernel(&mut self, sees_kernel: bool) {
        (self.margin_ppm, self.highest) = if sees_kernel {
            (MARGIN_PPM, Cents(u32::MAX))
        } else {
            (MARGIN_PROC_PPM, HIGHEST_PROC)
        };
    }

    /// Takes a new view from the server and lowers at once what it demands: a pod that is being deleted loses its
    /// trust, a pod whose request grew starts anew.
    pub fn set_view(&mut self, view: View) {
        self.pods.follow(&view.pods);
        self.view = Some(view);
        self.retarget(false);
    }

    /// Forgets the server's view: nothing is amplified until the next one.
    pub fn clear_view(&mut self) {
        self.view = None;
        self.targets = PerResource::default();
    }

    /// Takes a frame in and moves the publication.
    pub fn end_frame(&mut self, frame: &Frame) {
        for resource in Resource::ALL {
            let peak = *frame.peak.get(resource);
            self.history
                .get_mut(resource)
                .push(frame.index, peak, frame.is_valid);
        }
        for departed in self.pods.end_frame(frame, &self.timing) {
            for resource in Resource::ALL {
                self.history.get_mut(resource).depart(departed.low(resource));
            }
        }
        self.retarget(true);
    }

    /// Judges one brake period. `now` is monotonic time.
    pub fn end_brake_period(&mut self, pressure: &Pressure, now: std::time::Duration) {
        self.brakes.end_period(pressure, now);
        for resource in Resource::ALL {
            let floor = self.view.as_ref().map_or(0, |view| self.floor(resource, view));
            let brake = self.brakes.level(resource);
            self.publication.get_mut(resource).brake(brake, floor);
        }
        self.retarget(false);
    }

    /// The result for both resources.
    pub fn estimates(&self) -> PerResource<Estimate> {
        PerResource::from_fn(|resource| self.estimate(resource))
    }

    /// Trust per pod, for the server's own fast-down.
    pub fn trust(&self) -> Vec<Trust> {
        self.pods.trust(&self.timing)
    }

    /// Frames whose measurements count, of the frames in the ring, in ppm.
    pub fn coverage_ppm(&self, resource: Resource) -> u32 {
        let valid = u64::from(self.history.get(resource).valid_frames());
        let ppm = valid * 1_000_000 / u64::from(self.timing.ring_frames.max(1));
        u32::try_from(ppm).unwrap_or(1_000_000)
    }

    fn floor(&self, resource: Resource, view: &View) -> u32 {
        floor_cents(self.pods.bound(resource), *view.raw.get(resource)).0
    }

    /// Computes targets anew and moves the publication towards them; it rises at frame ends only.
    fn retarget(&mut self, is_frame_end: bool) {
        let Some(view) = &self.view else { return };
        let mut targets = PerResource::default();
        for resource in Resource::ALL {
            let history = self.history.get(resource);
            let peak = history.peak(
                resource,
                &self.pods.newcomers(resource, &self.timing),
                self.timing.climb_frames,
            );
            let bounds = *view.bounds.get(resource);
            let slack = slack(&Inputs {
                resource,
                capacity: *view.capacity.get(resource),
                raw: *view.raw.get(resource),
                target_ppm: *view.target_ppm.get(resource),
                peak,
                margin_ppm: self.margin_ppm,
                warm_requests: self.pods.warm(resource, &self.timing),
                bound: self.pods.bound(resource),
            });
            let bounds = Bounds {
                min: bounds.min,
                max: bounds.max.min(self.highest.max(Cents::ONE)),
            };
            let target = target(&slack, history.valid_frames(), self.timing.ring_frames, bounds);
            let is_held = self.brakes.level(resource) >= Brake::Hold;
            self.publication.get_mut(resource).step(
                target.cents,
                is_frame_end,
                is_held,
                self.timing.up_after,
            );
            *targets.get_mut(resource) = Some(target);
        }
        self.targets = targets;
    }

    fn estimate(&self, resource: Resource) -> Estimate {
        let (Some(view), Some(target)) = (&self.view, self.targets.get(resource)) else {
            return Estimate {
                target: Cents::ONE,
                published: Cents::ONE,
                coverage_ppm: self.coverage_ppm(resource),
                margin_ppm: self.margin_ppm,
                brake: self.brakes.level(resource),
                reasons: vec!["no-directive"],
                ..Estimate::default()
            };
        };
        let brake = self.brakes.level(resource);
        let published = self
            .publication
            .get(resource)
            .out(self.pods.bound(resource), *view.raw.get(resource));
        let mut reasons = Vec::new();
        reasons.extend(self.brakes.reason(resource));
        reasons.extend(target.reasons.iter().copied());
        if published < target.cents {
            reasons.push("rising");
        } else if published > target.cents {
            reasons.push("bound");
        }
        Estimate {
            capacity: *view.capacity.get(resource),
            raw: *view.raw.get(resource),
            slack: target.slack,
            target: target.cents,
            published,
            coverage_ppm: self.coverage_ppm(resource),
            margin_ppm: self.margin_ppm,
            brake,
            reasons,
        }
    }
}

#[cfg(test)]
mod tests;
