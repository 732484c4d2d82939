//! A group of nodes with controllers and a scheduler. Pods of DaemonSets are bound first, all others in the order of
//! their arrival; a pod that does not fit waits and blocks no other one.

use std::{collections::VecDeque, mem};

use headroom_domain::{capacity::places::PlaceKind, resource::Resource};
use rand::Rng as _;

use super::{
    controller::{Controller, Strategy, WaitingPod},
    host::Host,
    pending::Pending,
};
use crate::{
    closed::{Backlog, MOST_BOUND, Run},
    convert::long,
    figures::{DISCARDED, Figures},
    node::{Identity, Node},
    policy::Kind,
    random::Stream,
    source::{DAY, GROUP, Nature, Source as _},
    synthetic::Synthetic,
};

/// Deployments of a group.
const DEPLOYMENTS: u32 = 12;
/// Pods of a Deployment: one per node of a full group.
const REPLICAS: usize = 8;
/// Largest request of a Deployment's pod, in milli-cores.
const LARGEST: u64 = 2000;
/// Requests of the DaemonSets of a group, in milli-cores.
const DAEMON_SETS: [u64; 4] = [100, 150, 250, 400];
/// Days between rollouts of a DaemonSet.
const MONTH: usize = 28;
/// A DaemonSet replaces one pod at a time, as by default.
const ONE_BY_ONE: Strategy = Strategy {
    surge: 0,
    unavailable: 1,
};
/// Probability that a version uses more than the service's other versions.
const LARGER: f64 = 0.1;
/// Use of such a version compared with the others.
const LARGER_USE: f64 = 1.2;
/// Frames after a pod's creation for which a place stays open.
const AT_FIRST: usize = 2;
/// Bits of a replica's number that contain its version.
const VERSION_BITS: u32 = 12;
/// Bits of a replica's number that contain its number within the version.
const SLOT_BITS: u32 = 8;
/// Number instead of a replica's for the draws of a controller.
const OF_CONTROLLER: u32 = 255;
/// Number instead of a replica's for the draws of a version.
const OF_VERSION: u32 = 254;

/// A group of nodes that share services.
pub(super) struct Group<'a> {
    load: &'a Synthetic,
    number: u32,
    frames: usize,
    pub(super) hosts: Vec<Host<'a>>,
    pub(super) controllers: Vec<Controller>,
    pub(super) pending: Pending,
}

/// A pod that the scheduler tries to bind.
#[derive(Debug, Clone, Copy)]
enum Candidate {
    /// Pod of the controller with that index.
    Replica(usize, WaitingPod),
    /// First pod of the backlog of the node with that index.
    Backlog(usize),
}

impl<'a> Group<'a> {
    /// Group `number` of the fleet, without pods.
    pub(super) fn new(run: &Run<'_>, load: &'a Synthetic, number: u32, kind: &Kind) -> Self {
        let first = number * GROUP;
        let host = |node| {
            let identity = Identity {
                seed: load.seed(),
                number: node,
            };
            Host {
                node: Node::new(run.settings.machine, run.cv, run.frames, identity),
                policy: (kind.build)(&run.settings),
                backlog: Backlog::new(load, node),
                waits_since: 0,
                allocatable: 0,
                figures: Figures::default(),
            }
        };
        Self {
            load,
            number,
            frames: run.frames,
            hosts: (first..run.nodes.min(first + GROUP)).map(host).collect(),
            controllers: Vec::new(),
            pending: Pending::default(),
        }
    }

    /// Adds the group's controllers: Deployments that roll daily, and DaemonSets that roll monthly.
    pub(super) fn with_controllers(mut self, strategy: Strategy) -> Self {
        let hosts = self.hosts.len();
        for number in 0..DEPLOYMENTS {
            let mut random = self.schedule_of(number);
            let request = Nature::draw(Resource::Cpu, &mut random).request.min(LARGEST);
            let due = DAY + random.random_range(0..DAY);
            let about = (number, PlaceKind::Other, request);
            let sizes = (REPLICAS, hosts);
            self.controllers
                .push(Controller::new(about, strategy, (due, DAY), sizes));
        }
        for (number, request) in (DEPLOYMENTS..).zip(DAEMON_SETS) {
            let last = self.frames.saturating_sub(DAY).max(DISCARDED + 1);
            let due = self.schedule_of(number).random_range(DISCARDED..last);
            let about = (number, PlaceKind::DaemonSet, request);
            let times = (due, MONTH * DAY);
            self.controllers
                .push(Controller::new(about, ONE_BY_ONE, times, (hosts, hosts)));
        }
        self
    }

    /// Generator for the size and the rollouts of a controller.
    fn schedule_of(&self, number: u32) -> rand_chacha::ChaCha8Rng {
        let stream = Stream::Replica {
            group: self.number,
            number: number << (VERSION_BITS + SLOT_BITS) | OF_CONTROLLER,
        };
        stream.generator(self.load.seed())
    }

    /// Runs all frames.
    pub(super) fn play(mut self) -> (Vec<Figures>, Pending) {
        for frame in 0..self.frames {
            self.step(frame);
        }
        (
            self.hosts.into_iter().map(|host| host.figures).collect(),
            self.pending,
        )
    }

    /// Runs one frame: pods end and leave, others are created and bound, and then all of them run.
    pub(super) fn step(&mut self, frame: usize) {
        for host in &mut self.hosts {
            host.node.begin(frame);
        }
        for controller in &mut self.controllers {
            if controller.roll(frame, &mut self.hosts) && frame >= DISCARDED {
                self.pending.of_kind_mut(controller.kind).finished += 1;
            }
        }
        for host in &mut self.hosts {
            host.refresh();
        }
        self.schedule(frame);
        if frame >= DISCARDED {
            for controller in &self.controllers {
                let counts = self.pending.of_kind_mut(controller.kind);
                counts.all += long(controller.waiting.len());
                for pod in controller.kept_waiting(&self.hosts) {
                    counts.by_policy += 1;
                    counts.by_policy_at_first += u64::from(frame - pod.since < AT_FIRST);
                }
            }
        }
        for host in &mut self.hosts {
            host.end_frame();
        }
    }

    /// Binds waiting pods where they fit.
    fn schedule(&mut self, frame: usize) {
        let mut bound = vec![0; self.hosts.len()];
        let mut queue = self.queue();
        while let Some(candidate) = queue.pop_front() {
            match candidate {
                Candidate::Replica(index, pod) => self.bind_replica(index, pod, frame),
                Candidate::Backlog(index) => {
                    let Some((host, bound)) = self.hosts.get_mut(index).zip(bound.get_mut(index)) else {
                        continue;
                    };
                    if *bound < MOST_BOUND && host.bind_first(frame) {
                        *bound += 1;
                        queue.push_back(candidate);
                    }
                }
            }
        }
    }

    /// Removes all waiting pods from their controllers and orders them with the backlogs' first pods.
    fn queue(&mut self) -> VecDeque<Candidate> {
        let mut queue = Vec::new();
        for (index, controller) in self.controllers.iter_mut().enumerate() {
            let is_first = controller.kind == PlaceKind::DaemonSet;
            for pod in mem::take(&mut controller.waiting) {
                queue.push(((!is_first, pod.since), Candidate::Replica(index, pod)));
            }
        }
        for (index, host) in self.hosts.iter().enumerate() {
            queue.push(((true, host.waits_since), Candidate::Backlog(index)));
        }
        queue.sort_by_key(|&(key, _)| key);
        queue.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// Binds a controller's pod to the node with the most free capacity; if it fits nowhere, it waits.
    fn bind_replica(&mut self, index: usize, pod: WaitingPod, frame: usize) {
        let Some(controller) = self.controllers.get_mut(index) else {
            return;
        };
        let is_possible = |&(host, _): &(usize, &mut Host<'_>)| pod.home.is_none_or(|home| home == host);
        let hosts = self.hosts.iter_mut().enumerate().filter(is_possible);
        let freest = hosts.max_by_key(|(host, state)| (state.free(), usize::MAX - host));
        let fitting = freest.filter(|(_, host)| host.free() >= controller.request);
        let Some((at, host)) = fitting else {
            controller.waiting.push(pod);
            return;
        };
        let counts = self.pending.of_kind_mut(controller.kind);
        if frame >= DISCARDED {
            counts.bound += 1;
            counts.delayed += u64::from(pod.since < frame);
        }
        let (load, group, frames) = (self.load, self.number, self.frames);
        let (number, request) = (controller.number, controller.request);
        let workload = |version: u32, slot: u32| {
            let stream = |slot| Stream::Replica {
                group,
                number: (number << VERSION_BITS | version) << SLOT_BITS | slot,
            };
            let mut random = stream(OF_VERSION).generator(load.seed());
            let factor = if random.random_bool(LARGER) {
                LARGER_USE
            } else {
                1.0
            };
            let course = load.service(group, number, request).scaled(factor);
            let mut random = stream(slot).generator(load.seed());
            course.workload(frame, frames, &mut random)
        };
        host.bind(controller.bind(pod, (at, frame), workload));
    }
}
