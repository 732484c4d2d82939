//! Tests of places in whole decisions: they keep the stored value within their limits, are recorded for other replicas,
//! and give a tenant who exchanges idle pods for busy ones no capacity beyond that of the machine.

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::{
    capacity::places::{LeavingPod, OpenPlaces, PlaceKind},
    estimate::{Estimator, Frame, PodRequest, PodUse, Profile, Timing, View},
    hint::Brake,
    workload::Workload,
};

/// Demand of admitted pods and the places beside them, for CPU.
fn left(admitted: u64, places: PlaceSums) -> PerResource<PodDemand> {
    PerResource {
        cpu: PodDemand {
            admitted,
            fit: admitted,
            places,
        },
        memory: PodDemand::default(),
    }
}

const fn daemon_sets(daemon_sets: u64) -> PlaceSums {
    PlaceSums {
        daemon_sets,
        tied: 0,
        others: 0,
    }
}

const fn others(others: u64) -> PlaceSums {
    PlaceSums {
        daemon_sets: 0,
        tied: 0,
        others,
    }
}

fn decision(
    node: &NodeState,
    policy: &Policy,
    hint: Option<&EffectiveHint>,
    pod_demand: Option<PerResource<PodDemand>>,
) -> Decision {
    let write = Write {
        uid: "u1",
        writer: Writer::Other,
        old: node,
        new: node,
    };
    decide(
        &write,
        &Basis {
            policy,
            hint,
            pod_demand,
        },
    )
}

fn result(decision: &Decision) -> (u64, bool) {
    let cpu = &decision.outcomes.cpu;
    (cpu.result.unwrap(), cpu.why.contains(&Why::FloorPlaces))
}

/// A node of 4 with a capacity of 4, of which 3600 are safe to use, that auto has amplified to 6 and lowers to 4.
#[rstest]
#[case::none(5010, others(0), 5040, false)]
#[case::one(5010, others(100), 5120, true)]
#[case::of_the_smallest_pod(5000, others(1), 5040, true)]
#[case::more_than_is_not_safe(5010, others(1000), 5440, true)]
#[case::of_daemon_sets(5010, daemon_sets(300), 5320, true)]
#[case::more_than_is_stored(5910, daemon_sets(300), 6000, true)]
#[case::below_raw(1000, daemon_sets(300), 4000, false)]
fn places_keep_the_stored_value(
    #[case] admitted: u64,
    #[case] open: PlaceSums,
    #[case] expected: u64,
    #[case] is_why: bool,
) {
    let (node, policy, hint) = (amplified(), policy(Mode::Auto), found(100, Freshness::Fresh));
    let decided = decision(&node, &policy, Some(&hint), Some(left(admitted, open)));
    assert_eq!(result(&decided), (expected, is_why));
    let after = stored(&node, &decided);
    let again = decision(&after, &policy, Some(&hint), Some(left(admitted, open)));
    assert_eq!(stored(&after, &again), after);
}

#[rstest]
#[case::hold(Brake::Hold, others(100), 5120)]
#[case::shed(Brake::Shed, others(100), 5040)]
#[case::shed_and_tied(Brake::Shed, daemon_sets(300), 5320)]
#[case::stop(Brake::Stop, daemon_sets(300), 5240)]
fn brakes_close_places(#[case] brake: Brake, #[case] open: PlaceSums, #[case] expected: u64) {
    let (node, policy) = (amplified(), policy(Mode::Auto));
    let mut hint = found(100, Freshness::Fresh);
    hint.note.cpu.brake = brake.level();
    let decided = decision(&node, &policy, Some(&hint), Some(left(5010, open)));
    assert_eq!(result(&decided).0, expected);
}

#[rstest]
#[case::off(Mode::Off, daemon_sets(300))]
#[case::fixed_ratio(STATIC, daemon_sets(300))]
#[case::no_measurement(Mode::Auto, others(300))]
fn without_a_measurement_places_of_pods_that_run_anywhere_are_closed(
    #[case] mode: Mode,
    #[case] open: PlaceSums,
) {
    let (node, policy) = (amplified(), policy(mode));
    let decided = decision(&node, &policy, None, Some(left(5010, open)));
    assert!(
        !decided.outcomes.cpu.why.contains(&Why::FloorPlaces),
        "{decided:?}"
    );
}

#[test]
fn a_quarantined_node_keeps_places_of_daemon_sets_only() {
    let (node, policy) = (amplified(), policy(Mode::Auto));
    let mut hint = found(100, Freshness::Fresh);
    hint.caution = Some(NoRaiseReason::Quarantined(crate::hint::Contradiction::Use));
    let of = |open| result(&decision(&node, &policy, Some(&hint), Some(left(5010, open)))).0;
    assert_eq!((of(others(300)), of(daemon_sets(300))), (5040, 5320));
}

#[test]
fn isolated_cpus_are_no_capacity_for_places() {
    let (node, policy) = (amplified(), policy(Mode::Auto));
    let mut hint = found(100, Freshness::Fresh);
    hint.isolated.cpu = 2000;
    let decided = decision(&node, &policy, Some(&hint), Some(left(5000, others(1000))));
    // C is 2000 and T 1800.
    assert_eq!(result(&decided).0, 5200);
}

#[test]
fn places_that_count_are_recorded_until_they_no_longer_count() {
    let (node, policy, hint) = (amplified(), policy(Mode::Auto), found(100, Freshness::Fresh));
    let recorded = |node: &NodeState| recorded_places(&node.annotations, "u1").cpu;
    let write = |node: &NodeState, held| stored(node, &decision(node, &policy, Some(&hint), held));
    let open = PlaceSums {
        daemon_sets: 200,
        tied: 0,
        others: 100,
    };
    let node = write(&node, Some(left(5000, open)));
    assert_eq!(recorded(&node), open);
    assert_eq!(recorded_places(&node.annotations, "u2").cpu, PlaceSums::default());
    let unread = write(&node, None);
    assert_eq!(
        recorded(&unread),
        open,
        "a replica that knows no pods keeps the record"
    );
    let kept = stored(
        &node,
        &keep(&Write {
            uid: "u1",
            writer: Writer::Other,
            old: &node,
            new: &node,
        }),
    );
    assert_eq!(recorded(&kept), open, "and one that does not know the policy");
    let filled = write(&node, Some(left(5300, PlaceSums::default())));
    assert_eq!(recorded(&filled), PlaceSums::default());
}

/// An event in the life of a node whose tenant exchanges pods.
#[derive(Debug, Clone, Copy)]
enum TenantEvent {
    /// One of the pods leaves.
    Leaves(usize),
    /// A pod binds if it fits: bare, or of one of three controllers, with its kind; it uses all of its request.
    Binds {
        controller: Option<u64>,
        kind: PlaceKind,
        milli: u64,
    },
    /// A frame of five minutes ends.
    Frame,
}

fn event() -> impl Strategy<Value = TenantEvent> {
    let kinds = prop::sample::select(PlaceKind::ALL.to_vec());
    prop_oneof![
        3 => (0_usize..64).prop_map(TenantEvent::Leaves),
        5 => (prop::option::of(0_u64..3), kinds, 1_u64..6000)
            .prop_map(|(controller, kind, milli)| TenantEvent::Binds { controller, kind, milli }),
        1 => Just(TenantEvent::Frame),
    ]
}

#[derive(Debug, Clone)]
struct TenantPod {
    uid: String,
    controller: Option<u64>,
    kind: PlaceKind,
    milli: u64,
    used: u64,
}

/// A node of 32 CPUs, its agent, and the webhook's store of places.
struct TenantNode {
    pods: Vec<TenantPod>,
    bound: u32,
    estimator: Estimator,
    frame: u64,
    places: OpenPlaces,
    state: NodeState,
}

const CAPACITY: u64 = 32_000;
const RAW: u64 = 31_500;

impl TenantNode {
    /// A node full of pods that have idled for a day.
    fn idle() -> Self {
        let timing = Timing {
            ring_frames: 8,
            trust_from: 2,
            trust_full: 8,
            ..Profile::Production.timing()
        };
        let mut estimator = Estimator::new(timing);
        estimator.reset_outcomes(false);
        let mut node = Self {
            pods: Vec::new(),
            bound: 0,
            estimator,
            frame: 0,
            places: OpenPlaces::default(),
            state: NodeState {
                allocatable: PerResource {
                    cpu: Some(Quantity::from_milli(RAW)),
                    memory: Some("64Gi".parse().unwrap()),
                },
                ..state("32", "64Gi")
            },
        };
        for number in 0_u32..60 {
            let controller = (number % 4 < 3).then_some(u64::from(number) % 3);
            let kind = PlaceKind::ALL[number as usize % 3];
            let fits = node.bind(controller, kind, 1000, 100);
            assert!(fits || number > 30);
            if number % 2 == 1 {
                node.end_frame();
            }
        }
        for _ in 0..40 {
            node.end_frame();
        }
        node.bound = 0;
        node
    }

    fn sum(&self, of: impl Fn(&TenantPod) -> u64) -> u64 {
        self.pods.iter().map(of).sum()
    }

    fn bind(&mut self, controller: Option<u64>, kind: PlaceKind, milli: u64, used: u64) -> bool {
        let stored = self.state.amounts().cpu.unwrap();
        if self.sum(|pod| pod.milli) + milli > stored {
            return false;
        }
        self.bound += 1;
        let arrival = self.places.arrive();
        let requests = PerResource {
            cpu: milli,
            memory: 0,
        };
        self.places.fill(controller, &requests, arrival);
        self.pods.push(TenantPod {
            uid: format!("{used}-{}-{}", self.frame, self.bound),
            controller,
            kind,
            milli,
            used,
        });
        self.decide();
        true
    }

    fn leave(&mut self, at: usize) {
        if self.pods.is_empty() {
            return;
        }
        let pod = self.pods.swap_remove(at % self.pods.len());
        if let Some(controller) = pod.controller {
            let place = LeavingPod {
                controller,
                owner: "",
                kind: pod.kind,
                requests: PerResource {
                    cpu: pod.milli,
                    memory: 0,
                },
            };
            let now = self.now();
            self.places.open(&place, now);
        }
        self.decide();
    }

    fn now(&self) -> Duration {
        Duration::from_secs(300) * u32::try_from(self.frame).unwrap()
    }

    fn end_frame(&mut self) {
        self.decide();
        let used = |pod: &TenantPod| {
            let used = PerResource {
                cpu: pod.used,
                memory: 0,
            };
            (
                pod.uid.clone(),
                PodUse {
                    low: used,
                    high: used,
                },
            )
        };
        let frame = Frame {
            index: self.frame,
            is_valid: true,
            peak: PerResource {
                cpu: self.sum(|pod| pod.used),
                memory: 0,
            },
            pods: self.pods.iter().map(used).collect(),
            ..Frame::default()
        };
        self.estimator.end_frame(&frame);
        self.frame += 1;
        self.decide();
    }

    /// The agent's hint and the webhook's decision on it.
    fn decide(&mut self) {
        let policy = policy(Mode::Auto);
        let pods: BTreeMap<_, _> = self
            .pods
            .iter()
            .map(|pod| {
                let request = PodRequest {
                    requests: PerResource {
                        cpu: pod.milli,
                        memory: 0,
                    },
                    workload: pod.controller.map(|controller| Workload {
                        controller,
                        version: pod.used,
                    }),
                    ..PodRequest::default()
                };
                (pod.uid.clone(), request)
            })
            .collect();
        self.estimator.set_view(View {
            generation: 1,
            capacity: PerResource {
                cpu: CAPACITY,
                memory: 64 << 30,
            },
            raw: PerResource {
                cpu: RAW,
                memory: 64 << 30,
            },
            pods,
            admitted: PerResource::default(),
            bounds: policy.bounds,
            target_ppm: policy.target_ppm,
        });
        let hint = found(self.estimator.estimates().cpu.published.0, Freshness::Fresh);
        let admitted = self.sum(|pod| pod.milli);
        let demand = left(admitted, self.places.sums(self.now()).cpu);
        let decided = decision(&self.state, &policy, Some(&hint), Some(demand));
        self.state = stored(&self.state, &decided);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Pods that idled for a day use what they used, and all that a tenant binds in their place uses its whole request:
    /// together never more than the machine has. Rounding up to a cent may add that.
    #[test]
    fn a_tenant_who_exchanges_idle_pods_for_busy_ones_stays_within_capacity(
        events in prop::collection::vec(event(), 1..150),
    ) {
        let mut node = TenantNode::idle();
        let full = node.state.amounts().cpu.unwrap();
        prop_assert!(full > RAW + RAW / 2, "{full}");
        for event in events {
            match event {
                TenantEvent::Leaves(at) => node.leave(at),
                TenantEvent::Binds { controller, kind, milli } => {
                    node.bind(controller, kind, milli, milli);
                }
                TenantEvent::Frame => node.end_frame(),
            }
            let demand = node.sum(|pod| pod.used);
            prop_assert!(demand <= CAPACITY + RAW / 100, "{demand}");
        }
    }
}
