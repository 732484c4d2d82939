//! A resize that the kubelet defers for an hour raises nothing and is never granted.
//!
//! The kubelet reconsiders it each second, because a user asks again. Whatever the pod requests, the node publishes no
//! more for it.

use headroom_domain::{
    estimate::{Profile, Timing},
    policy::{Bounds, Mode},
    ratio::Cents,
    resource::{PerResource, Resource},
};

use super::{
    DayStep, SimulatedDays,
    world::{FRAME, PERIOD, SimulatedWorld},
};

const HOUR: u64 = 3_600;
/// Frames after which pods are trusted in full: four hours.
const TRUSTED: u32 = 48;
/// Frames without a change after which there will be none: whatever came last is trusted.
const STILL: u32 = TRUSTED + 12;
const AT_MOST: u32 = 20 * TRUSTED;
/// Use of pods in percent of their requests: low enough for amplification below the maximum.
const USED: u64 = 40;

/// Production, but that pods are trusted sooner.
fn timing() -> Timing {
    Timing {
        ring_frames: TRUSTED,
        trust_full: TRUSTED,
        ..Profile::Production.timing()
    }
}

/// A node of 8 CPUs and 16 GiB, for which more pods wait than it ever has room for.
fn run(mode: Mode) -> SimulatedDays {
    let bounds = |max| Bounds {
        min: Cents::ONE,
        max: Cents(max),
    };
    SimulatedDays {
        raw: (8_000, 16_384),
        reserved: 5,
        mode,
        bounds: PerResource {
            cpu: bounds(400),
            memory: bounds(200),
        },
        waiting: vec![(1_200, 800)],
        steps: Vec::new(),
    }
}

fn published(world: &SimulatedWorld) -> PerResource<u64> {
    PerResource::from_fn(|resource| world.stored.allocatable(resource))
}

/// A world that has been full for hours, and in which nothing changes any more.
fn full(mode: Mode) -> SimulatedWorld {
    let mut world = SimulatedWorld::new(&run(mode), timing());
    let (mut last, mut still) = (published(&world), 0);
    for _frame in 0..AT_MOST {
        for pod in 0..world.pods.len() {
            let (percent, burst) = (USED, 0);
            world.apply(DayStep::Use { pod, percent, burst }).unwrap();
        }
        world.apply(DayStep::Frames(1)).unwrap();
        let now = published(&world);
        still = if now == last { still + 1 } else { 0 };
        last = now;
        if still == STILL {
            assert!((10_000..24_000).contains(&last.cpu), "{last:?}");
            return world;
        }
    }
    panic!("it never comes to rest: {last:?}");
}

/// An hour of a resize to this percentage of the pod's request.
fn climbs_nothing(mode: Mode, percent: u64) {
    let mut world = full(mode);
    let before = published(&world);
    let has = world.admitted();
    world.apply(DayStep::Resize { pod: 0, percent }).unwrap();
    for second in 1..=HOUR {
        world.wait(1);
        if second % FRAME == 0 {
            world.end_frame().unwrap();
        }
        if second % PERIOD == 0 {
            world.apply(DayStep::Sync).unwrap();
        }
        world.apply(DayStep::Resize { pod: 0, percent: 100 }).unwrap();
        let now = published(&world);
        for resource in Resource::ALL {
            let (now, before) = (now.get(resource), before.get(resource));
            assert!(
                now <= before,
                "{resource}: {before} became {now} in second {second}"
            );
        }
        assert_eq!(world.admitted(), has, "granted in second {second}");
    }
}

#[test]
fn resize_deferred_for_an_hour_does_not_raise_a_node_in_auto() {
    climbs_nothing(Mode::Auto, 300);
}

#[test]
fn resize_deferred_for_an_hour_does_not_raise_a_node_in_guard() {
    climbs_nothing(Mode::Guard, 300);
}
