//! Tests of places: opening, use, closing, limits.

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::{capacity::place_limits::PlaceLimits, hint::Brake};

/// 32 CPUs with 31.5 allocatable and 28.8 safe to use.
const RAW: u64 = 31_500;
const CAPACITY: u64 = 32_000;
const SAFE: u64 = 28_800;
const START: Duration = Duration::from_secs(1000);

fn limits(brake: Brake) -> PlaceLimits {
    PlaceLimits::new(RAW, CAPACITY, SAFE, brake)
}

const fn cpu(cpu: u64) -> PerResource<u64> {
    PerResource { cpu, memory: 0 }
}

fn leaving(controller: u64, kind: PlaceKind, milli: u64) -> LeavingPod<'static> {
    LeavingPod {
        controller,
        owner: "ReplicaSet n/a",
        kind,
        requests: cpu(milli),
    }
}

fn places(pods: &[(u64, PlaceKind, u64)]) -> OpenPlaces {
    let mut places = OpenPlaces::default();
    for (controller, kind, milli) in pods {
        places.open(&leaving(*controller, *kind, *milli), START);
    }
    places
}

fn sum_held(places: &OpenPlaces, brake: Brake) -> u64 {
    places.sums(START).cpu.within(&limits(brake)).total()
}

#[rstest]
#[case::daemon_set(PlaceKind::DaemonSet, 400, [400, 400, 400, 400])]
#[case::tied(PlaceKind::Tied, 400, [400, 400, 400, 0])]
#[case::other(PlaceKind::Other, 400, [400, 400, 0, 0])]
#[case::large_daemon_set(PlaceKind::DaemonSet, 10_000, [3_200, 3_200, 3_200, 1_575])]
#[case::large_tied(PlaceKind::Tied, 10_000, [3_200, 3_200, 3_200, 0])]
#[case::large_other(PlaceKind::Other, 10_000, [3_200, 3_200, 0, 0])]
fn a_place_holds_up_to_the_limit_of_its_kind_and_of_the_brake(
    #[case] kind: PlaceKind,
    #[case] milli: u64,
    #[case] expected: [u64; 4],
) {
    let places = places(&[(1, kind, milli)]);
    let brakes = [Brake::Off, Brake::Hold, Brake::Shed, Brake::Stop];
    assert_eq!(brakes.map(|brake| sum_held(&places, brake)), expected);
}

#[test]
fn a_tied_controller_has_one_place_and_another_controller_several() {
    let tied = places(&[
        (1, PlaceKind::DaemonSet, 300),
        (1, PlaceKind::DaemonSet, 400),
        (1, PlaceKind::DaemonSet, 200),
    ]);
    assert_eq!(sum_held(&tied, Brake::Off), 400);
    let other = places(&[(1, PlaceKind::Other, 300), (1, PlaceKind::Other, 400)]);
    assert_eq!(sum_held(&other, Brake::Off), 700);
}

#[test]
fn all_places_together_hold_what_is_not_safe_to_use_the_most_tied_first() {
    let all = places(&[
        (1, PlaceKind::Other, 10_000),
        (2, PlaceKind::Tied, 1_000),
        (3, PlaceKind::DaemonSet, 1_500),
    ]);
    let expected = PlaceSums {
        daemon_sets: 1_500,
        tied: 1_000,
        others: 700,
    };
    assert_eq!(all.sums(START).cpu.within(&limits(Brake::Off)), expected);
    let roomy = PlaceLimits::new(RAW, CAPACITY, CAPACITY / 2, Brake::Off);
    let large = places(&[(1, PlaceKind::DaemonSet, 10_000), (2, PlaceKind::Tied, 1_000)]);
    assert_eq!(
        large.sums(START).cpu.within(&roomy).total(),
        RAW / 5,
        "a fifth of raw"
    );
}

#[test]
fn a_node_without_reserve_holds_no_place() {
    let all = places(&[(1, PlaceKind::DaemonSet, 400), (2, PlaceKind::Other, 400)]);
    let limits = PlaceLimits::new(RAW, RAW, RAW, Brake::Off);
    assert_eq!(all.sums(START).cpu.within(&limits).total(), 0);
}

#[test]
fn a_bound_pod_uses_the_place_of_its_controller_first_and_then_the_oldest() {
    let mut open = places(&[
        (1, PlaceKind::Other, 300),
        (2, PlaceKind::Other, 400),
        (3, PlaceKind::Other, 500),
    ]);
    let early = Arrival(2);
    let arrival = open.arrive();
    open.fill(Some(2), &cpu(500), arrival);
    let left = |open: &OpenPlaces| -> Vec<_> {
        let left = open.open_at(START);
        left.map(|place| (place.controller, place.amounts.cpu)).collect()
    };
    assert_eq!(left(&open), [(Some(1), 200), (Some(3), 500)]);
    open.fill(None, &cpu(600), arrival);
    assert_eq!(left(&open), [(Some(3), 100)]);
    open.fill(Some(3), &cpu(600), early);
    assert_eq!(left(&open), [(Some(3), 100)], "opened after the pod's arrival");
}

#[test]
fn a_place_closes_after_ten_minutes() {
    let mut places = places(&[(1, PlaceKind::Other, 300)]);
    let end = START + OPEN_FOR;
    assert_eq!(places.next_close(START), Some(end));
    let before = end.checked_sub(Duration::from_millis(1)).unwrap();
    assert_eq!(places.sums(before).cpu.others, 300);
    assert_eq!((places.sums(end).cpu.others, places.next_close(end)), (0, None));
    places.open(&leaving(2, PlaceKind::Other, 100), end);
    assert_eq!(places.open.len(), 1, "closed places take no memory");
}

#[test]
fn recorded_places_count_once_and_are_filled_by_any_pod() {
    let mut places = OpenPlaces::default();
    let early = places.arrive();
    let mut recorded = PerResource::<PlaceSums>::default();
    (recorded.cpu.daemon_sets, recorded.cpu.others) = (400, 300);
    places.inherit(&recorded, START);
    assert_eq!(places.sums(START), recorded);
    places.fill(None, &cpu(600), early);
    assert_eq!(
        places.sums(START),
        recorded,
        "the record counts pods that were bound"
    );
    let late = places.arrive();
    places.fill(Some(7), &cpu(600), late);
    assert_eq!(sum_held(&places, Brake::Off), 100);
    assert_eq!(places.sums(START + OPEN_FOR), PerResource::default());
}

#[test]
fn a_thousand_controllers_have_a_bounded_number_of_places_and_tied_ones_stay() {
    let mut open = places(&[(0, PlaceKind::DaemonSet, 100)]);
    for controller in 1..=1_000 {
        open.open(&leaving(controller, PlaceKind::Other, 10), START);
    }
    assert_eq!(open.open_at(START).count(), MOST_PLACES);
    assert!(
        open.open_at(START)
            .any(|place| place.kind == PlaceKind::DaemonSet)
    );
}

#[test]
fn an_owner_is_cut_to_its_longest_length() {
    let mut places = OpenPlaces::default();
    let owner = "é".repeat(1 << 20);
    let pod = LeavingPod {
        owner: &owner,
        ..leaving(1, PlaceKind::Other, 100)
    };
    places.open(&pod, START);
    assert_eq!(places.open[0].owner.len(), LONGEST_OWNER);
}

/// A pod that leaves or is bound.
#[derive(Debug, Clone, Copy)]
enum PlaceEvent {
    Leaves(usize),
    Binds(u64, u64, PlaceKind),
}

fn kind() -> impl Strategy<Value = PlaceKind> {
    prop_oneof![
        Just(PlaceKind::DaemonSet),
        Just(PlaceKind::Tied),
        Just(PlaceKind::Other)
    ]
}

fn events() -> impl Strategy<Value = Vec<PlaceEvent>> {
    let event = prop_oneof![
        (0_usize..64).prop_map(PlaceEvent::Leaves),
        (0_u64..1_000, 0_u64..8_000, kind())
            .prop_map(|(controller, milli, kind)| PlaceEvent::Binds(controller, milli, kind)),
    ];
    proptest::collection::vec(event, 1..200)
}

proptest! {
    /// A tenant deletes and binds pods in any order, within capacity that is free: requests and places together never exceed the
    /// stored value, and the places never hold more than capacity has beyond safe use.
    #[test]
    fn places_keep_untrusted_demand_within_capacity(events in events()) {
        let stored = 2 * RAW;
        let (mut open, mut pods) = (OpenPlaces::default(), Vec::<LeavingPod<'_>>::new());
        let requested = |pods: &[LeavingPod<'_>]| pods.iter().map(|pod| pod.requests.cpu).sum::<u64>();
        for event in events {
            let before = requested(&pods) + sum_held(&open, Brake::Off);
            match event {
                PlaceEvent::Leaves(at) => {
                    if pods.is_empty() {
                        continue;
                    }
                    let pod = pods.swap_remove(at % pods.len());
                    open.open(&pod, START);
                    prop_assert!(requested(&pods) + sum_held(&open, Brake::Off) <= before);
                }
                PlaceEvent::Binds(controller, milli, kind) => {
                    if requested(&pods) + milli > stored {
                        continue;
                    }
                    let arrival = open.arrive();
                    open.fill(Some(controller), &cpu(milli), arrival);
                    pods.push(leaving(controller, kind, milli));
                    prop_assert!(requested(&pods) + sum_held(&open, Brake::Off) <= before + milli);
                }
            }
            let sum = |is_it: fn(PlaceKind) -> bool| {
                let places = open.open_at(START).filter(|place| is_it(place.kind));
                places.map(|place| place.amounts.cpu).sum::<u64>()
            };
            let all = sum_held(&open, Brake::Off);
            let tied = sum_held(&open, Brake::Shed);
            prop_assert!(tied <= sum(|kind| kind != PlaceKind::Other).min(RAW / 5));
            prop_assert!(all - tied <= sum(|kind| kind == PlaceKind::Other));
            prop_assert!(all <= CAPACITY - SAFE);
            prop_assert!(sum_held(&open, Brake::Stop) <= (RAW / 20).min(tied));
            prop_assert!(open.open_at(START).count() <= MOST_PLACES);
        }
    }
}
