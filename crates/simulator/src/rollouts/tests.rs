//! Tests of rollouts on groups of two nodes with room, without room, and with an allocatable that falls.

use headroom_domain::capacity::places::PlaceKind;

use super::{
    controller::{Controller, Strategy},
    fleet::Group,
    pending::Pending,
    *,
};
use crate::{
    figures::DISCARDED,
    node::Node,
    policy::{Policy, tests::settings},
};

const DUE: usize = DISCARDED + 6;
const FRAMES: usize = DISCARDED + 60;

/// A policy that leaves no room once frames count, except for pods that left if it keeps the highest allocatable.
struct Full {
    keeps: bool,
    stored: u64,
}

impl Policy for Full {
    fn allocatable(&mut self, node: &Node) -> u64 {
        let kept = if self.keeps { self.stored } else { 0 };
        self.stored = match node.now {
            ..DISCARDED => node.machine.raw,
            DISCARDED => node.bound(),
            _ => node.bound().max(kept),
        };
        self.stored
    }

    fn predicted_peak(&mut self, _node: &Node) -> Option<u64> {
        None
    }
}

static FALLING: Kind = Kind {
    name: "falling",
    about: "allocatable falls when a pod leaves",
    build: |_| {
        Box::new(Full {
            keeps: false,
            stored: 0,
        })
    },
};
static KEEPING: Kind = Kind {
    name: "keeping",
    about: "allocatable stays when a pod leaves",
    build: |_| {
        Box::new(Full {
            keeps: true,
            stored: 0,
        })
    },
};

fn run_of(load: &Synthetic) -> Run<'_> {
    Run {
        source: load,
        nodes: 2,
        frames: FRAMES,
        cv: 0.5,
        settings: settings(),
    }
}

fn load() -> Synthetic {
    Synthetic::new(1, 2, FRAMES).unwrap()
}

fn daemon_set() -> Controller {
    let one_by_one = Strategy {
        surge: 0,
        unavailable: 1,
    };
    Controller::new((0, PlaceKind::DaemonSet, 400), one_by_one, (DUE, FRAMES), (2, 2))
}

fn deployment(strategy: Strategy) -> Controller {
    Controller::new((0, PlaceKind::Other, 1000), strategy, (DUE, FRAMES), (8, 2))
}

/// Two nodes with one controller and a backlog whose first pods never fit.
fn group<'a>(load: &'a Synthetic, kind: &Kind, controller: Controller) -> Group<'a> {
    let mut group = Group::new(&run_of(load), load, 0, kind);
    group.controllers.push(controller);
    for host in &mut group.hosts {
        host.backlog.request = u64::MAX;
    }
    group
}

fn pending(kind: &Kind, controller: Controller) -> Pending {
    group(&load(), kind, controller).play().1
}

#[test]
fn a_rollout_on_nodes_with_room_waits_for_nothing() {
    let time = pending(policy::RAW_KIND, daemon_set()).daemon_sets;
    assert_eq!((time.finished, time.bound, time.delayed), (1, 2, 0));
    assert_eq!((time.all_minutes(), time.minutes_by_policy()), (0, 0));
}

#[test]
fn a_daemon_set_waits_where_allocatable_falls_with_the_leaving_pod() {
    let falling = pending(&FALLING, daemon_set()).daemon_sets;
    let minutes = 5 * u64::try_from(FRAMES - DUE).unwrap();
    assert_eq!((falling.all_minutes(), falling.finished), (minutes, 0));
    assert_eq!(falling.minutes_by_policy(), minutes, "one pod, until the end");
    let kept = pending(&KEEPING, daemon_set()).daemon_sets;
    assert_eq!((kept.all_minutes(), kept.finished, kept.bound), (0, 1, 2));
}

#[test]
fn a_surge_that_never_had_room_is_not_delayed_by_the_policy() {
    let surge = Strategy {
        surge: 2,
        unavailable: 0,
    };
    let waiting = pending(&KEEPING, deployment(surge)).others;
    assert_eq!(
        (waiting.all_minutes(), waiting.minutes_by_policy()),
        (2 * 5 * u64::try_from(FRAMES - DUE).unwrap(), 0)
    );
}

#[test]
fn a_deployment_keeps_its_number_of_pods_within_the_strategy() {
    for (strategy, least, most) in [
        (
            Strategy {
                surge: 2,
                unavailable: 0,
            },
            8,
            10,
        ),
        (
            Strategy {
                surge: 0,
                unavailable: 2,
            },
            8,
            8,
        ),
    ] {
        let load = load();
        let mut group = group(&load, policy::RAW_KIND, deployment(strategy));
        let mut counts = Vec::new();
        for frame in 0..FRAMES {
            group.step(frame);
            counts.push(
                group
                    .hosts
                    .iter()
                    .map(|host| host.node.pods().len())
                    .sum::<usize>(),
            );
        }
        let range = (counts.iter().min().copied(), counts.iter().max().copied());
        assert_eq!(range, (Some(least), Some(most)));
        let is_new = |pod: &crate::node::Pod| pod.owner.is_some_and(|owner| owner.version == 1);
        let all = |host: &host::Host<'_>| host.node.pods().iter().all(is_new);
        assert!(group.hosts.iter().all(all));
        assert_eq!(group.pending.others.finished, 1);
    }
}

#[test]
fn the_backlog_fills_the_room_that_a_rollout_leaves() {
    let load = load();
    let group = Group::new(&run_of(&load), &load, 0, policy::RAW_KIND);
    let without = group.play().0;
    let strategy = STRATEGIES[1].1;
    let group = Group::new(&run_of(&load), &load, 0, policy::RAW_KIND).with_controllers(strategy);
    let (with, pending) = group.play();
    for figures in [&without, &with] {
        assert!(figures.iter().all(|node| node.requests_per_allocatable() > 0.9));
    }
    assert_eq!(pending.daemon_sets.minutes_by_policy(), 0);
    assert_eq!(pending.others.minutes_by_policy(), 0, "raw lowers no allocatable");
}
