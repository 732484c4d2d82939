//! Replays one node's past through the agent's own estimator: computes its ratios, and checks if they were too high.

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
    record::Record,
    slots::{NodeFrame, PodMoment},
};

/// A ratio is judged once an hour, by the day that follows: as often as the estimator judges itself, docs/margin.md.
const DECISION_FRAMES: u64 = FRAMES_AN_HOUR as u64;
/// Frames of that day.
const DAY_FRAMES: u64 = FRAMES_A_DAY as u64;
/// Lowest ratio that is looked at to find nodes that need less than they advertise.
const LOWEST: Cents = Cents(50);

/// Bounds and targets in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Bounds of the ratio.
    pub bounds: PerResource<Bounds>,
    /// theta, in ppm.
    pub target_ppm: PerResource<u32>,
}

/// One node.
#[derive(Debug)]
pub struct ReplayedNode {
    name: String,
    pool: Option<String>,
    policy: Policy,
    /// What would have been given.
    given: Estimator,
    /// The same with nothing to keep it from going below 1.00: what the node needs.
    needed: Estimator,
    /// Capacity and allocatable as last known.
    size: PerResource<Option<Size>>,
    /// Anonymous memory of each pod a frame ago.
    anonymous: BTreeMap<String, u64>,
    /// Frame in which each pod was first there.
    births: BTreeMap<String, u64>,
    first: Option<u64>,
    tally: PerResource<Tally>,
    /// Pods that ran here, from the second day on.
    pods: u64,
    pods_at_risk: u64,
    /// Those that are here now and are counted among `pods`; true if also among `pods_at_risk`.
    counted: BTreeMap<String, bool>,
}

/// What a node has of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    capacity: u64,
    raw: u64,
}

/// Totals of one resource, from the second day on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ratio in cents, frame by frame.
    pub given: Vec<u32>,
    /// Ratio in cents that nothing keeps from going below 1.00, frame by frame.
    pub needed: Vec<u32>,
    /// Sum over the frames of raw allocatable.
    pub raw: u128,
    /// Sum over the frames of what the ratio adds to it.
    pub gained: u128,
    /// Frames whose peak was above capacity as it is.
    pub saturated: u64,
    /// Frames whose peak would have been, had the room been filled with pods that use as much of their requests.
    pub would_saturate: u64,
    /// Decisions followed by a whole day.
    pub judged: u64,
    /// Those of them after which the pods that were there used more than was predicted.
    pub missed: u64,
    /// Frame by frame, for plots.
    pub record: Record,
    decisions: VecDeque<PendingDecision>,
}

/// A predicted peak, and what has been seen since of the pods that it was for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PendingDecision {
    frame: u64,
    predicted: u64,
    is_exceeded: bool,
}

impl ReplayedNode {
    /// A node of which nothing is known.
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
            tally: PerResource::default(),
            pods: 0,
            pods_at_risk: 0,
            counted: BTreeMap::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its pool, if it has one.
    pub fn pool(&self) -> Option<&str> {
        self.pool.as_deref()
    }

    /// What came of a resource.
    pub fn tally(&self, resource: Resource) -> &Tally {
        self.tally.get(resource)
    }

    /// Pods that ran on it, from the second day on; one that comes back under its name counts again.
    pub const fn pods(&self) -> u64 {
        self.pods
    }

    /// Those of them that were on it in a frame that the ratio alone would have let use more than there is.
    pub const fn pods_at_risk(&self) -> u64 {
        self.pods_at_risk
    }

    /// True once it was known what the node has.
    pub fn has_view(&self) -> bool {
        self.given.view().is_some()
    }

    /// Makes it a node of that pool.
    pub fn join(&mut self, pool: &str) {
        self.pool = Some(pool.to_owned());
    }

    /// Takes a frame in. Nothing comes of frames before its capacity and allocatable are known.
    pub fn replay(&mut self, moment: &NodeFrame) {
        for resource in Resource::ALL {
            if let (Some(capacity), Some(allocatable)) =
                (*moment.capacity.get(resource), *moment.allocatable.get(resource))
            {
                // What another amplifier has added is not the node's own.
                let raw = allocatable.min(capacity);
                *self.size.get_mut(resource) = Some(Size { capacity, raw });
            }
        }
        let (Some(cpu), Some(memory)) = (self.size.cpu, self.size.memory) else {
            return;
        };
        let size = PerResource { cpu, memory };
        let frame = self.frame(moment, &size);
        for (estimator, min) in [(&mut self.given, None), (&mut self.needed, Some(LOWEST))] {
            let view = view(moment, &size, &self.policy, min);
            // Servers tell an agent of changes alone, and each view interrupts a rise.
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

    /// The frame as the agent would have measured it, had it the samples that there are.
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
    /// Takes a frame in; true if the peak would have been above the limit had the room been filled, and was not as it is.
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

    /// Holds what was used in a frame against the predictions of the day before it. `pods` are (birth, use).
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

/// What the webhook would publish of what the agent says: pods that run are not left uncovered, within the maximum.
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
