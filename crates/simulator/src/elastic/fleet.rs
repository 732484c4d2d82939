//! A group of nodes of an elastic fleet, and the table that a replica of the webhook keeps of its workloads.

use std::collections::{BTreeMap, VecDeque};

use headroom_domain::{
    estimate::{FRAMES_A_DAY, KnownWorkloads},
    resource::PerResource,
    workload::{Limits, NodeEvidence, PodEvidence, ProfileTable, Workload},
};
use rand::Rng as _;
use rand_distr::Exp1;

use super::{
    FleetShape,
    demand::{ElasticDemand, Supplied, Wanted},
};
use crate::{
    closed::Run,
    convert::{long, real, whole},
    figures::Figures,
    node::{Identity, Node, Pod},
    policy::{Kind, Policy, Settings},
    random::Stream,
    source::{GROUP, Source as _},
    synthetic::Synthetic,
};

/// Most pods that a node receives in a frame: a new node fills within half an hour.
const MOST_BOUND: usize = 12;
/// Frames for which the successor of a rolled pod waits for its node; then it runs elsewhere.
const SUCCESSOR_WAITS: usize = 2;

/// A place in the fleet: one node after the other.
struct Seat {
    node: Node,
    policy: Box<dyn Policy>,
    identity: Identity,
    /// Frame in which the node is removed.
    ends: Option<usize>,
    /// Number of the next pod of its services, and of its Jobs.
    numbers: [u32; 2],
    /// End and workload of pods that a rollout ends.
    rolled: BTreeMap<usize, Vec<Wanted>>,
    /// Successors of rolled pods, with the frame of their creation.
    successors: VecDeque<(usize, Wanted)>,
    figures: Figures,
    allocatable: u64,
}

/// A group of nodes.
pub(super) struct Fleet<'a> {
    demand: ElasticDemand<'a>,
    shape: FleetShape,
    kind: &'a Kind,
    settings: Settings,
    cv: f64,
    frames: usize,
    seats: Vec<Seat>,
    /// Number of the next pod.
    pods: u32,
    table: ProfileTable,
}

impl<'a> Fleet<'a> {
    /// Group `group` of the fleet, without pods.
    pub(super) fn new(
        run: &Run<'_>,
        load: &'a Synthetic,
        group: u32,
        shape: FleetShape,
        kind: &'a Kind,
    ) -> Self {
        let first = group * GROUP;
        let mut fleet = Self {
            demand: ElasticDemand::new(load, group, run.frames, shape),
            shape,
            kind,
            settings: run.settings,
            cv: run.cv,
            frames: run.frames,
            seats: Vec::new(),
            pods: 0,
            table: ProfileTable::new(Limits::default()),
        };
        for number in first..run.nodes.min(first + GROUP) {
            let identity = Identity {
                seed: load.seed(),
                number,
            };
            let seat = Seat {
                node: fleet.node(identity),
                policy: (kind.build)(&run.settings),
                identity,
                ends: fleet.end_of_life(identity, 0),
                numbers: [0, 0],
                rolled: BTreeMap::new(),
                successors: VecDeque::new(),
                figures: Figures::default(),
                allocatable: 0,
            };
            fleet.seats.push(seat);
        }
        fleet
    }

    fn node(&self, identity: Identity) -> Node {
        Node::new(self.settings.machine, self.cv, self.frames, identity)
    }

    /// Frame in which a node that starts in `frame` is removed.
    fn end_of_life(&self, identity: Identity, frame: usize) -> Option<usize> {
        let mean = self.shape.node_life?;
        let stream = Stream::Elastic {
            group: 1 << 20 | identity.number,
            number: u32::try_from(frame).unwrap_or(u32::MAX),
        };
        let life = real(long(mean)) * stream.generator(identity.seed).sample::<f64, _>(Exp1);
        Some(frame + usize::try_from(whole(life)).unwrap_or_default().max(1))
    }

    /// Runs all frames; returns the figures of each node.
    pub(super) fn play(mut self) -> Vec<Figures> {
        for frame in 0..self.frames {
            self.step(frame);
        }
        self.seats.into_iter().map(|seat| seat.figures).collect()
    }

    pub(super) fn step(&mut self, frame: usize) {
        for index in 0..self.seats.len() {
            self.begin(index, frame);
            self.fill(index, frame);
        }
        for seat in &mut self.seats {
            seat.figures.record(&seat.node, seat.allocatable, None);
            seat.policy.end_frame(&seat.node);
            self.table.record(&seat.evidence(), long(frame));
        }
    }

    /// Starts a frame of one node: a node whose life has ended is replaced by an empty one.
    fn begin(&mut self, index: usize, frame: usize) {
        let Some((identity, ends)) = self.seats.get(index).map(|seat| (seat.identity, seat.ends)) else {
            return;
        };
        let fresh = ends.filter(|ends| *ends <= frame).map(|_| {
            let node = self.node(identity);
            (node, self.end_of_life(identity, frame))
        });
        let Some(seat) = self.seats.get_mut(index) else {
            return;
        };
        if let Some((node, ends)) = fresh {
            seat.node = node;
            seat.policy = (self.kind.build)(&self.settings);
            seat.ends = ends;
            seat.rolled.clear();
            seat.successors.clear();
        }
        seat.node.begin(frame);
        while let Some(rolled) = seat.rolled.first_entry().filter(|rolled| *rolled.key() <= frame) {
            let rolled = rolled.remove();
            seat.successors
                .extend(rolled.into_iter().map(|wanted| (frame, wanted)));
        }
        seat.successors
            .retain(|(since, _)| frame - since < SUCCESSOR_WAITS);
        seat.policy.learn(known(&seat.node, &mut self.table, frame));
        seat.allocatable = seat.policy.allocatable(&seat.node);
    }

    /// Binds successors of rolled pods, and then the demand's pods while they fit.
    fn fill(&mut self, index: usize, frame: usize) {
        let Some(seat) = self.seats.get_mut(index) else {
            return;
        };
        for _ in 0..seat.successors.len() {
            let Some((since, wanted)) = seat.successors.pop_front() else {
                break;
            };
            if seat.fits(wanted) {
                seat.bind(wanted, self.demand.supply(wanted, self.pods, frame));
                self.pods += 1;
            } else {
                seat.successors.push_back((since, wanted));
            }
        }
        for _ in 0..MOST_BOUND {
            let is_job = seat.needs_job(self.shape.jobs_percent);
            let [services, jobs] = seat.numbers;
            // Numbers of Jobs are odd, so that the draws of both differ.
            let number = if is_job { 2 * jobs + 1 } else { 2 * services };
            let wanted = self.demand.next(seat.identity.number, number, is_job);
            if !seat.fits(wanted) {
                break;
            }
            seat.numbers = if is_job {
                [services, jobs + 1]
            } else {
                [services + 1, jobs]
            };
            seat.bind(wanted, self.demand.supply(wanted, self.pods, frame));
            self.pods += 1;
        }
    }
}

impl Seat {
    fn fits(&self, wanted: Wanted) -> bool {
        self.node.bound() + wanted.request <= self.allocatable
    }

    /// True while Jobs hold less than their share of the requests.
    fn needs_job(&self, percent: u64) -> bool {
        let owned = |pod: &&Pod| {
            let owner = pod.owner.map_or(0, |owner| owner.controller);
            owner > u64::from(super::demand::SERVICES)
        };
        let jobs: u64 = self.node.pods().iter().filter(owned).map(|pod| pod.request).sum();
        jobs * 100 < self.node.bound() * percent
    }

    fn bind(&mut self, wanted: Wanted, supplied: Supplied) {
        let Supplied { pod, is_rolled } = supplied;
        if is_rolled {
            let end = pod.start + pod.usage.len();
            self.rolled.entry(end).or_default().push(wanted);
        }
        self.node.bind(pod);
        self.allocatable = self.policy.allocatable(&self.node);
    }

    /// Use of the pods in the current frame, as an agent reports it.
    fn evidence(&self) -> NodeEvidence {
        let pods = self.node.pods().iter();
        let pods = pods.filter_map(|pod| {
            let cpu = |cpu| PerResource { cpu, memory: 0 };
            Some(PodEvidence {
                namespace: 0,
                workload: workload(pod)?,
                requests: cpu(pod.request),
                used: cpu(pod.used(self.node.now)?),
            })
        });
        NodeEvidence {
            node: self.identity.number.into(),
            pods: pods.collect(),
            counts: PerResource {
                cpu: true,
                memory: true,
            },
        }
    }
}

fn workload(pod: &Pod) -> Option<Workload> {
    let owner = pod.owner?;
    Some(Workload {
        controller: owner.controller,
        version: owner.version,
    })
}

/// Profiles of the workloads of a node's pods.
fn known(node: &Node, table: &mut ProfileTable, frame: usize) -> KnownWorkloads {
    let workloads = node.pods().iter().filter_map(workload);
    let profiles = workloads.filter_map(|workload| Some((workload, table.profile(&workload, long(frame))?)));
    KnownWorkloads {
        offset: 0,
        frames_a_day: FRAMES_A_DAY.into(),
        profiles: profiles.collect(),
    }
}
