//! Tests of the invariants in docs/estimator.md#what-holds, on whole estimators with random histories.

use proptest::prelude::*;

use super::*;

/// A day of eight frames, so that a case covers several.
fn timing() -> Timing {
    Timing {
        ring_frames: 8,
        trust_from: 2,
        trust_full: 8,
        ..Profile::Production.timing()
    }
}

#[derive(Clone, Debug)]
struct Member {
    request: u64,
    used: u64,
    born: u64,
    dies: u64,
    is_deleting: bool,
}

#[derive(Clone, Debug)]
struct World {
    raw: u64,
    reserved: u64,
    lowest: u32,
    highest: u32,
    members: Vec<Member>,
    /// F, and true if the frame is valid.
    frames: Vec<(u64, bool)>,
}

fn member() -> impl Strategy<Value = Member> {
    let request = prop_oneof![0..9000_u64, Just(70_000)];
    (
        request,
        0..9000_u64,
        0..12_u64,
        6..40_u64,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(request, used, born, dies, is_deleting)| Member {
            request,
            used,
            born,
            dies,
            is_deleting,
        })
}

fn world() -> impl Strategy<Value = World> {
    (
        1000..40_000_u64,
        0..4000_u64,
        50..=100_u32,
        100..=300_u32,
        prop::collection::vec(member(), 0..6),
        prop::collection::vec((0..40_000_u64, prop::bool::weighted(0.9)), 1..20),
    )
        .prop_map(|(raw, reserved, lowest, highest, members, frames)| World {
            raw,
            reserved,
            lowest,
            highest,
            members,
            frames,
        })
}

impl World {
    fn view(&self, now: u64) -> View {
        let alive = self.members.iter().enumerate().filter(|(_, pod)| now < pod.dies);
        let pods = alive.map(|(at, pod)| {
            let request = PodRequest {
                requests: PerResource {
                    cpu: pod.request,
                    memory: pod.request,
                },
                is_deleting: pod.is_deleting,
                ..PodRequest::default()
            };
            (format!("pod-{at}"), request)
        });
        let bounds = Bounds {
            min: Cents(self.lowest),
            max: Cents(self.highest),
        };
        let capacity = self.raw + self.reserved;
        View {
            generation: 1,
            capacity: PerResource {
                cpu: capacity,
                memory: capacity,
            },
            raw: PerResource {
                cpu: self.raw,
                memory: self.raw,
            },
            pods: pods.collect(),
            bounds: PerResource {
                cpu: bounds,
                memory: bounds,
            },
            target_ppm: PerResource {
                cpu: 900_000,
                memory: 900_000,
            },
            admitted: PerResource::default(),
        }
    }

    fn frame(&self, index: u64) -> Option<Frame> {
        let (peak, is_valid) = *self.frames.get(usize::try_from(index).ok()?)?;
        let alive = self.members.iter().enumerate();
        let alive = alive.filter(|(_, pod)| (pod.born..pod.dies).contains(&index));
        let pods = alive.map(|(at, pod)| {
            let used = PerResource {
                cpu: pod.used,
                memory: pod.used,
            };
            let low = used.map(|_, used| used / 2);
            (format!("pod-{at}"), PodUse { low, high: used })
        });
        Some(Frame {
            index,
            is_valid,
            peak: PerResource {
                cpu: peak,
                memory: peak,
            },
            pods: pods.collect(),
            ..Frame::default()
        })
    }

    /// Runs an estimator through the frames up to and excluding `until`.
    fn live(&self, mut estimator: Estimator, until: u64) -> Estimator {
        for index in 0..until {
            estimator.set_view(self.view(index));
            let Some(frame) = self.frame(index) else { break };
            estimator.end_frame(&frame);
        }
        estimator
    }

    fn whole(&self) -> Estimator {
        self.live(Estimator::new(timing()), u64::MAX)
    }

    /// An estimator that has run up to `until` under a constant margin. Otherwise outcomes change the margin, and a
    /// less amplified node has fewer bad outcomes.
    fn measured(&self, until: u64) -> Estimator {
        let mut estimator = Estimator::new(timing());
        estimator.reset_outcomes(false);
        self.live(estimator, until)
    }

    /// Raises use: by `more` in each frame, and by `own` for that pod in the frames of its life.
    fn raise(&mut self, more: &[u64], who: usize, own: u64) {
        for ((peak, _), more) in self.frames.iter_mut().zip(more) {
            *peak += more;
        }
        if let Some(pod) = self.members.get_mut(who) {
            pod.used += own;
            let alive = pod.born..pod.dies;
            for (_, (peak, _)) in (0..)
                .zip(&mut self.frames)
                .filter(|(index, _)| alive.contains(index))
            {
                *peak += own;
            }
        }
    }

    /// Returns true if that pod lives in the last frame.
    fn survives(&self, who: usize) -> bool {
        let last = u64::try_from(self.frames.len()).unwrap() - 1;
        let pod = self.members.get(who);
        pod.is_none_or(|pod| (pod.born..pod.dies).contains(&last))
    }
}

/// Results of both at the end of the last frame, if they have published the same until then.
fn last_frame(one: &World, other: &World) -> [PerResource<Estimate>; 2] {
    let last = u64::try_from(one.frames.len()).unwrap() - 1;
    let mut estimators = [one, other].map(|world| {
        let mut estimator = world.measured(last);
        estimator.set_view(world.view(last));
        estimator
    });
    let [first, second] = &mut estimators;
    second.publication = first.publication;
    first.end_frame(&one.frame(last).unwrap());
    second.end_frame(&other.frame(last).unwrap());
    estimators.map(|estimator| estimator.estimates())
}

/// A_pub - R; negative if bound requests exceed the published allocatable, which the webhook's floor covers.
fn free(estimate: &Estimate) -> i128 {
    let allocatable = u128::from(estimate.raw) * u128::from(estimate.published.0) / 100;
    i128::try_from(allocatable).unwrap() - i128::from(estimate.slack.bound)
}

/// T - P - (R - Rw): the free amount by measurement.
fn room(estimate: &Estimate) -> i128 {
    let Slack {
        safe,
        predicted_peak,
        warm_requests,
        bound,
        ..
    } = estimate.slack;
    i128::from(safe) - i128::from(predicted_peak) + i128::from(warm_requests) - i128::from(bound)
}

/// A* - R of each resource: free amount by measurement, before ratios are rounded and rise in steps.
fn measured_free(estimator: &Estimator) -> [i128; 2] {
    let PerResource { cpu, memory } = &estimator.derived;
    [cpu, memory].map(|derived| {
        let target = &derived.as_ref().unwrap().target;
        i128::from(target.allocatable) - i128::from(target.slack.bound)
    })
}

fn both(estimator: &Estimator) -> [Estimate; 2] {
    let PerResource { cpu, memory } = estimator.estimates();
    [cpu, memory]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// I1 and bounds: only measured capacity is free, for any requests of pods.
    #[test]
    fn free_is_measured(world in world()) {
        for estimate in both(&world.whole()) {
            let bounds = Cents(world.lowest)..=Cents(world.highest);
            prop_assert!(bounds.contains(&estimate.target) && bounds.contains(&estimate.published));
            prop_assert!(estimate.published <= estimate.target);
            if estimate.published > Cents::ONE {
                prop_assert!(free(&estimate) <= room(&estimate), "{estimate:?}");
            }
        }
    }

    /// I2: larger requests create no slack, neither at once nor in any later frame: the measured free amount A* - R
    /// never rises. The published ratio follows in steps, so in a later frame it is compared with the other node's,
    /// or with its target if that is higher: a target that larger requests raise may leave the dead band in which the
    /// other one waits. Rounding may cost a cent.
    #[test]
    fn larger_requests_never_create_slack(
        world in world(), at in 0..20_u64, who in 0..6_usize, more in 1..9000_u64,
    ) {
        let mut greedy = world.clone();
        if let Some(pod) = greedy.members.get_mut(who) {
            pod.request += more;
        }
        let (mut plain, mut grown) = (world.measured(at), world.measured(at));
        let before = both(&plain);
        for index in at..at + 20 {
            plain.set_view(world.view(index));
            grown.set_view(greedy.view(index));
            for (one, other) in measured_free(&plain).iter().zip(measured_free(&grown)) {
                prop_assert!(other <= *one, "{plain:?} {grown:?}");
            }
            for ((one, other), before) in both(&plain).iter().zip(both(&grown)).zip(&before) {
                prop_assert!(room(&other) <= room(one), "{one:?} {other:?}");
                let cent = i128::from(one.raw / 100 + 1);
                let risen = Estimate { published: one.published.max(one.target), ..one.clone() };
                prop_assert!(free(&other) <= free(&risen) + cent, "{one:?} {other:?}");
                if index == at && at > 0 && before.slack.bound == one.slack.bound {
                    prop_assert!(free(&other) <= free(one).max(cent), "{one:?} {other:?}");
                    prop_assert!(other.published <= one.published);
                }
            }
            let Some(frame) = world.frame(index) else { break };
            plain.end_frame(&frame);
            grown.end_frame(&frame);
        }
    }

    /// More use never raises the ratio. For CPU this holds in any frames, and for any pod in its frames, whichever
    /// pods have left. For memory, where a higher start makes a climb smaller, it holds for all frames alike and for
    /// a pod that has not left; only if the last frame is invalid may the subtracted use of departed pods exceed the
    /// peak. Both start from one state of the publication: two states may cross within the dead band.
    #[test]
    fn more_use_never_raises_the_ratio(
        world in world(), more in prop::collection::vec(0..9000_u64, 20), shift in 0..9000_u64,
        who in 0..6_usize, own in 0..9000_u64,
    ) {
        let mut busier = world.clone();
        busier.raise(&more, who, own);
        let [one, other] = last_frame(&world, &busier).map(|estimates| estimates.cpu);
        prop_assert!(other.target <= one.target && other.published <= one.published, "{one:?} {other:?}");
        let mut fuller = world.clone();
        fuller.raise(&[shift; 20], who, if world.survives(who) { own } else { 0 });
        let [one, other] = last_frame(&world, &fuller).map(|estimates| estimates.memory);
        if world.frames.last().is_some_and(|(_, is_valid)| *is_valid) {
            prop_assert!(other.target <= one.target && other.published <= one.published, "{one:?} {other:?}");
        }
    }

    /// I3: binding a pod changes neither P nor Rw, and the free amount falls by its request.
    #[test]
    fn binding_a_pod_changes_only_the_free_amount(world in world(), request in 0..30_000_u64) {
        let mut estimator = world.whole();
        let before = both(&estimator);
        let mut view = estimator.view().unwrap().clone();
        let requests = PerResource { cpu: request, memory: request };
        view.pods.insert("new".to_owned(), PodRequest { requests, ..PodRequest::default() });
        estimator.set_view(view);
        for (before, after) in before.iter().zip(both(&estimator)) {
            prop_assert_eq!(before.slack.predicted_peak, after.slack.predicted_peak);
            prop_assert_eq!(before.slack.warm_requests, after.slack.warm_requests);
            prop_assert_eq!(before.target, after.target);
            prop_assert_eq!(before.published, after.published);
            prop_assert_eq!(free(before) - i128::from(request), free(&after));
        }
    }

    /// Repeated views, frames and queries change nothing.
    #[test]
    fn repeated_inputs_change_nothing(world in world()) {
        let mut estimator = world.whole();
        let before = (estimator.estimates(), estimator.trust());
        let view = estimator.view().unwrap().clone();
        estimator.set_view(view);
        for index in 0..u64::try_from(world.frames.len()).unwrap() {
            estimator.end_frame(&world.frame(index).unwrap());
        }
        prop_assert_eq!((estimator.estimates(), estimator.trust()), before);
    }
}
