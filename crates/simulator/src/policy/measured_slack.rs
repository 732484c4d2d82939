//! The policy `headroom`: the ratio of the agent's own estimator, but at least the webhook's floor for admitted pods.
//! `variants` builds on it.

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::{
    capacity::PlaceLimits,
    estimate::{
        Estimate, Estimator, Frame, KnownWorkloads, PodRequest, PodUse, Profile, Timing, View, floor_cents,
    },
    hint::Brake,
    policy::Bounds,
    resource::{PerResource, Resource},
    workload::Workload,
};

use super::{Kind, Policy, Settings, places::StoredAllocatable};
use crate::{
    contention::{self, CALM},
    node::Node,
};

pub(super) static KIND: Kind = Kind {
    name: super::OURS,
    about: "measured slack: the conditioned peak of one day, computed by the agent's own code",
    build: |settings| Box::new(MeasuredSlack::new(settings)),
};

/// Headroom's policy as it was before places and succession.
pub(super) static WITHOUT_PLACES: Kind = Kind {
    name: super::WITHOUT_PLACES,
    about: "headroom without places: a pod that leaves lowers allocatable before its successor is bound",
    build: |settings| {
        Box::new(MeasuredSlack {
            stored: None,
            has_succession: false,
            ..MeasuredSlack::new(settings)
        })
    },
};

/// Headroom's policy with places alone.
pub(super) static WITHOUT_SUCCESSION: Kind = Kind {
    name: super::WITHOUT_SUCCESSION,
    about: "headroom without succession: a new pod takes over nothing from the pod that it follows",
    build: |settings| {
        Box::new(MeasuredSlack {
            has_succession: false,
            ..MeasuredSlack::new(settings)
        })
    },
};

/// Headroom's policy with trust by workload.
pub(super) static WITH_WORKLOADS: Kind = Kind {
    name: super::WITH_WORKLOADS,
    about: "headroom with trust by workload: new pods and new nodes count by the profiles of their workloads",
    build: |settings| {
        Box::new(MeasuredSlack {
            uses_workloads: true,
            ..MeasuredSlack::new(settings)
        })
    },
};

/// Headroom's policy with a place for every pod that leaves.
pub(super) static PLACES_FOR_ALL: Kind = Kind {
    name: super::PLACES_FOR_ALL,
    about: "headroom with a place for every pod that leaves, as if each had a controller of its own",
    build: |settings| {
        Box::new(MeasuredSlack {
            stored: Some(StoredAllocatable::with_places_for_all()),
            ..MeasuredSlack::new(settings)
        })
    },
};

/// The estimator of one node.
#[derive(Debug)]
pub(in super::super) struct MeasuredSlack {
    settings: Settings,
    estimator: Estimator,
    /// Generation of pods in the estimator's view.
    seen: Option<u64>,
    /// True if a resource was scarce in the last evaluated period, or a brake is active.
    is_pressed: bool,
    /// `None` for a webhook without places.
    stored: Option<StoredAllocatable>,
    /// True if a pod takes over the history of the pod that it follows.
    has_succession: bool,
    /// True if profiles of workloads count.
    uses_workloads: bool,
}

pub(super) const FRAME: Duration = Duration::from_secs(300);

impl MeasuredSlack {
    pub(in super::super) fn new(settings: &Settings) -> Self {
        Self::with(settings, Profile::Production.timing())
    }

    /// An estimator without history, with another timing.
    pub(super) fn with(settings: &Settings, timing: Timing) -> Self {
        let mut estimator = Estimator::new(timing);
        estimator.reset_outcomes(settings.is_calibrated);
        Self {
            settings: *settings,
            estimator,
            seen: None,
            is_pressed: false,
            stored: Some(StoredAllocatable::default()),
            has_succession: true,
            uses_workloads: false,
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The estimate of the simulated resource.
    pub(in super::super) fn estimate(&self) -> Estimate {
        let PerResource { cpu, memory } = self.estimator.estimates();
        match self.settings.resource {
            Resource::Cpu => cpu,
            Resource::Memory => memory,
        }
    }

    /// `value` for the simulated resource, and the default for the other.
    fn only<T: Copy + Default>(&self, value: T) -> PerResource<T> {
        let mut pair = PerResource::default();
        *pair.get_mut(self.settings.resource) = value;
        pair
    }

    /// The agent's measurement of the node's frame `now`.
    pub(super) fn frame(&self, node: &Node) -> Frame {
        let used = |used| {
            let used = self.only(used);
            PodUse {
                low: used,
                high: used,
            }
        };
        let pods: BTreeMap<String, PodUse> = node
            .pods()
            .iter()
            .filter_map(|pod| Some((pod.uid.clone(), used(pod.used(node.now)?))))
            .collect();
        Frame {
            index: node.index(),
            is_valid: true,
            peak: self.only(node.peak(node.now)),
            pods,
            ..Frame::default()
        }
    }

    /// Evaluates the brake periods of the node's frame `now`. Calm periods are skipped while no brake is active,
    /// because they change nothing.
    fn brake(&mut self, node: &Node) {
        let Settings {
            resource, machine, ..
        } = self.settings;
        let start = FRAME * u32::try_from(node.now).unwrap_or(u32::MAX);
        let judge = |pressure, at, estimator: &mut Estimator, is_pressed: &mut bool| {
            if *is_pressed || pressure != CALM {
                estimator.end_brake_period(&pressure, start + at);
                *is_pressed = pressure != CALM;
            }
        };
        for (at, pressure) in contention::periods(resource, machine, node.spread(), node.seconds()) {
            judge(pressure, at, &mut self.estimator, &mut self.is_pressed);
        }
        judge(CALM, FRAME, &mut self.estimator, &mut self.is_pressed);
        self.is_pressed = self.estimate().brake > Brake::Off;
    }

    pub(super) fn end(&mut self, frame: &Frame) {
        self.estimator.end_frame(frame);
    }

    fn place_limits(&self, node: &Node) -> PlaceLimits {
        let Estimate { slack, brake, .. } = self.estimate();
        PlaceLimits::new(node.machine.raw, node.machine.capacity, slack.safe, brake)
    }

    fn view(&self, node: &Node) -> View {
        let mut bounds = PerResource::from_fn(|_| Bounds::OFF);
        *bounds.get_mut(self.settings.resource) = self.settings.bounds;
        let pods = node.pods().iter().map(|pod| {
            let workload = pod.owner.map(|owner| Workload {
                controller: owner.controller,
                version: owner.version,
            });
            let request = PodRequest {
                requests: self.only(pod.request),
                workload: workload.filter(|_| self.has_succession),
                ..PodRequest::default()
            };
            (pod.uid.clone(), request)
        });
        View {
            generation: node.generation,
            capacity: self.only(node.machine.capacity),
            raw: self.only(node.machine.raw),
            pods: pods.collect(),
            bounds,
            target_ppm: self.only(self.settings.theta_ppm),
            admitted: self.only(node.bound()),
        }
    }
}

impl Policy for MeasuredSlack {
    fn allocatable(&mut self, node: &Node) -> u64 {
        if self.seen != Some(node.generation) {
            self.estimator.set_view(self.view(node));
            self.seen = Some(node.generation);
        }
        let published = node.machine.raw * u64::from(self.estimate().published.0) / 100;
        let limits = self.place_limits(node);
        if let Some(stored) = &mut self.stored {
            return stored.store(published, node, &self.settings, &limits);
        }
        // Running pods stay covered: they were admitted under an earlier ratio.
        published.max(node.machine.raw * u64::from(floor_cents(node.bound(), node.machine.raw).0) / 100)
    }

    fn learn(&mut self, known: KnownWorkloads) {
        if self.uses_workloads {
            self.estimator.set_workloads(Some(known));
        }
    }

    /// P plus the requests that are not trusted yet.
    fn predicted_peak(&mut self, _node: &Node) -> Option<u64> {
        let slack = self.estimate().slack;
        Some(slack.predicted_peak + (slack.bound - slack.warm_requests))
    }

    fn end_frame(&mut self, node: &Node) {
        if self.settings.has_brakes {
            self.brake(node);
        }
        let frame = self.frame(node);
        self.end(&frame);
    }
}
