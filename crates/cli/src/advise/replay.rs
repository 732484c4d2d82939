//! Replays one node's history through the agent's estimator, and checks if the ratios were too high.

use std::collections::{BTreeMap, VecDeque};

use headroom_domain::{
    estimate::{
        Estimate, Estimator, FRAMES_A_DAY, FRAMES_AN_HOUR, Frame, PodRequest, PodUse, Profile, View,
        floor_cents, nearest_rank_p99,
    },
    policy::Bounds,
    ratio::Cents,
    resource::{PerResource, Resource},
};

use super::{
    plausibility::{Excess, Plausibility},
    record::Record,
    slots::{NodeFrame, PodMoment},
};

/// Frames between two evaluated ratios: one hour, as in the estimator's own evaluation, docs/margin.md. The day after
/// each one decides.
const DECISION_FRAMES: u64 = FRAMES_AN_HOUR as u64;
const DAY_FRAMES: u64 = FRAMES_A_DAY as u64;
/// Lowest ratio that is tried, to find nodes that advertise more than is safe.
const LOWEST: Cents = Cents(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub bounds: PerResource<Bounds>,
    pub target_ppm: PerResource<u32>,
}

#[derive(Debug)]
pub struct ReplayedNode {
    name: String,
    pool: Option<String>,
    policy: Policy,
    /// Estimator with the bounds of the policy.
    given: Estimator,
    /// Estimator without the limit at 1.00; its ratio is the one that is safe.
    needed: Estimator,
    /// Last known capacity and allocatable.
    size: PerResource<Option<Size>>,
    /// Anonymous memory of each pod one frame ago.
    anonymous: BTreeMap<String, u64>,
    /// First frame of each pod.
    births: BTreeMap<String, u64>,
    first: Option<u64>,
    plausibility: Plausibility,
    tally: PerResource<Tally>,
    /// Number of pods that ran here, from the second day on.
    pods: u64,
    pods_at_risk: u64,
    /// Present pods that are counted in `pods`; true if also in `pods_at_risk`.
    counted: BTreeMap<String, bool>,
}

/// Capacity and allocatable of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    capacity: u64,
    raw: u64,
}

/// Totals of one resource, from the second day on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ratio in cents of each frame.
    pub given: Vec<u32>,
    /// Ratio in cents of each frame, without the limit at 1.00.
    pub needed: Vec<u32>,
    /// Sum of raw allocatable over the frames.
    pub raw: u128,
    /// Sum of the amounts that the ratio adds.
    pub gained: u128,
    /// Frames with a measured peak above capacity.
    pub saturated: u64,
    /// Frames whose peak would have exceeded capacity if the gained amount had been filled with pods of the same use
    /// per request.
    pub would_saturate: u64,
    /// Decisions with a whole day of measurements after them.
    pub judged: u64,
    /// Decisions after which the present pods used more than predicted.
    pub missed: u64,
    pub record: Record,
    decisions: VecDeque<PendingDecision>,
}

/// A predicted peak, and the highest use since then of the pods it was for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PendingDecision {
    frame: u64,
    predicted: u64,
    is_exceeded: bool,
}

impl ReplayedNode {
    /// A node without any known value.
    pub fn new(name: String, policy: Policy) -> Self {
        Self {
            name,
            pool: None,
            policy,
            given: Estimator::new(Profile::Production.timing()),
            needed: Estimator::new(Profile::Production.timing()),
            size: PerResource::default(),
            anonymous: BTreeMap::new(),
            births: BTreeMap::new(),
            first: None,
            plausibility: Plausibility::default(),
            tally: PerResource::default(),
            pods: 0,
            pods_at_risk: 0,
            counted: BTreeMap::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Pool of the node, if it has one.
    pub fn pool(&self) -> Option<&str> {
        self.pool.as_deref()
    }

    pub fn tally(&self, resource: Resource) -> &Tally {
        self.tally.get(resource)
    }

    /// Number of pods, from the second day on; a pod that returns under its name counts again.
    pub const fn pods(&self) -> u64 {
        self.pods
    }

    /// Number of pods that were present in a frame in which only the gained amount let use exceed capacity.
    pub const fn pods_at_risk(&self) -> u64 {
        self.pods_at_risk
    }

    /// True once capacity and allocatable are known.
    pub fn has_view(&self) -> bool {
        self.given.view().is_some()
    }

    /// Amount that cannot be that of one machine, if too many frames have one.
    pub fn excess(&self) -> Option<Excess> {
        self.plausibility.excess()
    }

    /// Assigns the node to a pool.
    pub fn join(&mut self, pool: &str) {
        self.pool = Some(pool.to_owned());
    }

    /// Replays a frame. Frames before the first known capacity and allocatable have no effect.
    pub fn replay(&mut self, moment: &NodeFrame) {
        for resource in Resource::ALL {
            if let (Some(capacity), Some(allocatable)) =
                (*moment.capacity.get(resource), *moment.allocatable.get(resource))
            {
                // Allocatable above capacity is from another amplifier.
                let raw = allocatable.min(capacity);
                *self.size.get_mut(resource) = Some(Size { capacity, raw });
            }
        }
        let (Some(cpu), Some(memory)) = (self.size.cpu, self.size.memory) else {
            return;
        };
        let size = PerResource { cpu, memory };
        self.plausibility.check(moment, size.map(|_, size| size.capacity));
        let frame = self.frame(moment, &size);
        for (estimator, min) in [(&mut self.given, None), (&mut self.needed, Some(LOWEST))] {
            let view = view(moment, &size, &self.policy, min);
            // A real server only sends changes to an agent, and each new view interrupts a rise.
            if estimator.view() != Some(&view) {
                estimator.set_view(view);
            }
            estimator.end_frame(&frame);
        }
        self.births.retain(|pod, _| moment.pods.contains_key(pod));
        for pod in moment.pods.keys() {
            self.births.entry(pod.clone()).or_insert(moment.index);
        }
        self.judge(moment, &frame, &size);
    }

    /// The frame as the agent would have measured it with these samples.
    fn frame(&mut self, moment: &NodeFrame, size: &PerResource<Size>) -> Frame {
        let mut pods = BTreeMap::new();
        let mut working_set = 0_u64;
        for (name, pod) in moment.pods.iter().filter(|(_, pod)| pod.has_use()) {
            let used = used(pod);
            working_set = working_set.saturating_add(used.memory);
            let anonymous = pod.anonymous.unwrap_or(0);
            let before = self.anonymous.insert(name.clone(), anonymous);
            let low = PerResource {
                cpu: used.cpu,
                memory: before.unwrap_or(0).min(anonymous),
            };
            pods.insert(name.clone(), PodUse { low, high: used });
        }
        self.anonymous.retain(|pod, _| pods.contains_key(pod));
        let reserved = size.memory.capacity - size.memory.raw;
        let memory = moment.used.memory.iter().max().copied().unwrap_or_default();
        Frame {
            index: moment.index,
            is_valid: Resource::ALL
                .into_iter()
                .all(|resource| moment.used.get(resource).len() * 5 >= moment.slots * 4),
            peak: PerResource {
                cpu: nearest_rank_p99(&moment.used.cpu),
                memory: memory.saturating_sub(reserved).max(working_set),
            },
            pods,
            ..Frame::default()
        }
    }

    fn judge(&mut self, moment: &NodeFrame, frame: &Frame, size: &PerResource<Size>) {
        let first = *self.first.get_or_insert(frame.index);
        if frame.index < first + DAY_FRAMES {
            return;
        }
        let given = self.given.estimates();
        let given = given.map(|resource, estimate| floored(estimate, self.policy.bounds.get(resource).max));
        let needed = self.needed.estimates();
        let mut is_at_risk = false;
        for resource in Resource::ALL {
            let pods = moment
                .pods
                .iter()
                .filter_map(|(name, pod)| Some((*self.births.get(name)?, (*pod.used.get(resource))?)));
            let pods: Vec<(u64, u64)> = pods.collect();
            let limit = match resource {
                Resource::Cpu => size.cpu.capacity,
                Resource::Memory => size.memory.raw,
            };
            let tally = self.tally.get_mut(resource);
            if frame.is_valid {
                let (given, peak) = (given.get(resource), *frame.peak.get(resource));
                is_at_risk |= tally.count(given, needed.get(resource), peak, limit);
                tally.record.record(frame.index, peak, given);
                tally.compare_with_past(frame.index, peak, &pods);
            }
            tally.decide(frame.index, given.get(resource));
        }
        self.count_pods(moment, is_at_risk);
    }

    fn count_pods(&mut self, moment: &NodeFrame, is_at_risk: bool) {
        let running = |name: &String| moment.pods.get(name).is_some_and(PodMoment::has_use);
        self.counted.retain(|name, _| running(name));
        for (name, _) in moment.pods.iter().filter(|(_, pod)| pod.has_use()) {
            if !self.counted.contains_key(name) {
                self.pods += 1;
                self.counted.insert(name.clone(), false);
            }
        }
        if is_at_risk {
            for was_at_risk in self.counted.values_mut().filter(|was_at_risk| !**was_at_risk) {
                self.pods_at_risk += 1;
                *was_at_risk = true;
            }
        }
    }
}

impl Tally {
    /// Adds a frame; returns true if only the filled gained amount would have pushed the peak above the limit.
    fn count(&mut self, given: &Estimate, needed: &Estimate, peak: u64, limit: u64) -> bool {
        self.given.push(given.published.0);
        self.needed.push(needed.target.0);
        let gained = u128::from(given.raw) * u128::from(given.published.0.saturating_sub(Cents::ONE.0)) / 100;
        self.raw += u128::from(given.raw);
        self.gained += gained;
        let bound = u128::from(given.slack.bound).max(1);
        let filled = u128::from(peak) * (bound + gained) / bound;
        let (is_saturated, would_saturate) = (peak > limit, filled > u128::from(limit));
        self.saturated += u64::from(is_saturated);
        self.would_saturate += u64::from(would_saturate);
        would_saturate && !is_saturated
    }

    /// Compares the use of a frame with the predictions of the day before. `pods` are (birth, use).
    fn compare_with_past(&mut self, frame: u64, peak: u64, pods: &[(u64, u64)]) {
        for decision in &mut self.decisions {
            let younger = pods
                .iter()
                .filter(|(birth, _)| *birth > decision.frame)
                .fold(0_u64, |sum, (_, used)| sum.saturating_add(*used));
            decision.is_exceeded |= peak.saturating_sub(younger) > decision.predicted;
        }
        while let Some(decision) = self.decisions.front() {
            if frame < decision.frame + DAY_FRAMES {
                break;
            }
            self.judged += 1;
            self.missed += u64::from(decision.is_exceeded);
            self.decisions.pop_front();
        }
    }

    fn decide(&mut self, frame: u64, given: &Estimate) {
        if frame.is_multiple_of(DECISION_FRAMES) && given.published > Cents::ONE {
            self.decisions.push_back(PendingDecision {
                frame,
                predicted: given.slack.predicted_peak,
                is_exceeded: false,
            });
        }
    }
}

/// Applies the webhook's floor: allocatable covers running pods, up to the maximum.
fn floored(given: &Estimate, max: Cents) -> Estimate {
    let covering = floor_cents(given.slack.bound, given.raw);
    Estimate {
        published: given.published.max(covering.min(max)),
        ..given.clone()
    }
}

fn used(pod: &PodMoment) -> PerResource<u64> {
    pod.used.map(|_, used| used.unwrap_or(0))
}

fn view(moment: &NodeFrame, size: &PerResource<Size>, policy: &Policy, min: Option<Cents>) -> View {
    let requested = moment.pods.iter().filter(|(_, pod)| pod.has_request());
    View {
        generation: 0,
        capacity: size.map(|_, size| size.capacity),
        raw: size.map(|_, size| size.raw),
        pods: requested
            .map(|(name, pod)| {
                let requests = pod.requests.map(|_, request| request.unwrap_or(0));
                let request = PodRequest {
                    requests,
                    ..PodRequest::default()
                };
                (name.clone(), request)
            })
            .collect(),
        bounds: policy.bounds.map(|_, bounds| Bounds {
            min: min.unwrap_or(bounds.min),
            max: bounds.max,
        }),
        target_ppm: policy.target_ppm,
        admitted: PerResource::default(),
    }
}

#[cfg(test)]
mod tests;
