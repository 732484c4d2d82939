//! A simulated node: its pods and their use in each frame, past and future.

use headroom_domain::capacity::places::PlaceKind;
use rand_chacha::ChaCha8Rng;

use super::{
    convert::{long, real, whole},
    random::Stream,
    source::{DAY, Machine},
};

/// Standard deviations between the mean and the 99th percentile of a normal distribution.
const P99: f64 = 2.33;

/// Controller of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) controller: u64,
    /// Version of the controller's pod template.
    pub(super) version: u64,
    /// Ability of the pod's successor to run on another node.
    pub(super) kind: PlaceKind,
}

/// A pod that is bound to the node.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    /// Derived from its place in the node's backlog.
    pub(super) uid: String,
    /// `None` for a pod without a controller.
    pub(super) owner: Option<Owner>,
    pub(super) request: u64,
    /// Upper limit of its use.
    pub(super) limit: u64,
    /// Frame in which it started.
    pub(super) start: usize,
    /// Use in each frame of its life, at most until the end of the run.
    pub(super) usage: Vec<u64>,
}

/// Use of all pods in one frame.
#[derive(Debug, Clone, Copy, Default)]
struct Demand {
    used: u64,
    /// Sum of squares, for the spread within the frame.
    squares: f64,
}

/// Distribution of the seconds of a frame; `peak` is F, their 99th percentile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) deviation: f64,
    pub(super) peak: u64,
}

/// Identity of a node; all of its random draws depend on this alone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Identity {
    pub(super) seed: u64,
    pub(super) number: u32,
}

/// A node and its pods.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) machine: Machine,
    /// The frame that is about to run, or has just run.
    pub(super) now: usize,
    /// Changes whenever a pod starts or ends.
    pub(super) generation: u64,
    identity: Identity,
    pods: Vec<Pod>,
    bound: u64,
    spread: f64,
    demand: Vec<Demand>,
}

impl Pod {
    /// Use in `frame`, or `None` if the pod did not run then.
    pub(super) fn used(&self, frame: usize) -> Option<u64> {
        self.usage.get(frame.checked_sub(self.start)?).copied()
    }

    /// Use in the last `window` frames before `now`, oldest first.
    pub(super) fn recent_use(&self, now: usize, window: usize) -> &[u64] {
        let end = now.saturating_sub(self.start).min(self.usage.len());
        self.usage
            .get(end.saturating_sub(window)..end)
            .unwrap_or_default()
    }
}

impl Node {
    /// An empty node for a run of `frames` frames. `cv` is the coefficient of variation of a pod's use within a
    /// frame.
    pub(super) fn new(machine: Machine, cv: f64, frames: usize, identity: Identity) -> Self {
        Self {
            machine,
            now: 0,
            generation: 0,
            identity,
            pods: Vec::new(),
            bound: 0,
            spread: P99 * cv,
            demand: vec![Demand::default(); frames],
        }
    }

    /// Coefficient of variation of a pod's use within a frame.
    pub(super) fn cv(&self) -> f64 {
        self.spread / P99
    }

    pub(super) fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// R: the sum of all requests.
    pub(super) fn bound(&self) -> u64 {
        self.bound
    }

    /// Starts `frame` and removes pods whose life has ended.
    pub(super) fn begin(&mut self, frame: usize) {
        self.now = frame;
        let last = self.demand.len();
        let before = self.pods.len();
        self.pods.retain(|pod| {
            let end = pod.start + pod.usage.len();
            end > frame || end == last
        });
        if self.pods.len() != before {
            self.generation += 1;
            self.bound = self.pods.iter().map(|pod| pod.request).sum();
        }
    }

    /// Binds a pod from the current frame on.
    pub(super) fn bind(&mut self, pod: Pod) {
        for (demand, &used) in self.demand.iter_mut().skip(pod.start).zip(&pod.usage) {
            demand.used += used;
            demand.squares += real(used) * real(used);
        }
        self.bound += pod.request;
        self.generation += 1;
        self.pods.push(pod);
    }

    /// Removes a pod before the current frame runs.
    pub(super) fn remove(&mut self, uid: &str) {
        let Some(at) = self.pods.iter().position(|pod| pod.uid == uid) else {
            return;
        };
        let pod = self.pods.swap_remove(at);
        let lived = self.now.saturating_sub(pod.start);
        let coming = self.demand.iter_mut().skip(self.now.max(pod.start));
        for (demand, &used) in coming.zip(pod.usage.iter().skip(lived)) {
            demand.used -= used;
            demand.squares = (demand.squares - real(used) * real(used)).max(0.0);
        }
        self.bound -= pod.request;
        self.generation += 1;
    }

    /// Mean use of pods and system in `frame`.
    pub(super) fn used(&self, frame: usize) -> u64 {
        self.machine.system + self.demand.get(frame).map_or(0, |demand| demand.used)
    }

    /// F: the 99th percentile of the node's demand within `frame`, if pods vary independently. Future frames contain
    /// only pods that are already bound.
    pub(super) fn peak(&self, frame: usize) -> u64 {
        let demand = self.demand.get(frame).copied().unwrap_or_default();
        self.machine.system + demand.used + whole(self.spread * demand.squares.sqrt())
    }

    /// Distribution of the seconds of the current frame.
    pub(super) fn spread(&self) -> Spread {
        let demand = self.demand.get(self.now).copied().unwrap_or_default();
        Spread {
            mean: real(self.machine.system + demand.used),
            deviation: self.cv() * demand.squares.sqrt(),
            peak: self.peak(self.now),
        }
    }

    /// Generator for the seconds of the current frame.
    pub(super) fn seconds(&self) -> ChaCha8Rng {
        let Identity { seed, number } = self.identity;
        let frame = u32::try_from(self.now).unwrap_or(u32::MAX);
        Stream::Seconds { node: number, frame }.generator(seed)
    }

    /// PO: the highest peak of the bound pods over this frame and the next day.
    pub(super) fn coming_peak(&self) -> u64 {
        let end = (self.now + DAY).min(self.demand.len());
        (self.now..end)
            .map(|frame| self.peak(frame))
            .max()
            .unwrap_or(self.machine.system)
    }

    /// True if the run lasts for one more day, so that the oracle knows all of it.
    pub(super) fn has_a_day_to_come(&self) -> bool {
        self.now + DAY <= self.demand.len()
    }

    /// The frame's index as an agent counts it.
    pub(super) fn index(&self) -> u64 {
        long(self.now)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A node of 32 CPUs with these pods: request (also the limit), first frame, use.
    pub(in super::super) fn node(pods: &[(u64, usize, Vec<u64>)]) -> Node {
        let machine = Machine::for_resource(headroom_domain::resource::Resource::Cpu);
        let mut node = Node::new(machine, 0.5, 1200, Identity::default());
        for (number, (request, start, usage)) in pods.iter().enumerate() {
            node.bind(Pod {
                uid: number.to_string(),
                owner: None,
                request: *request,
                limit: *request,
                start: *start,
                usage: usage.clone(),
            });
        }
        node
    }

    #[test]
    fn a_peak_adds_the_spread_of_independent_pods() {
        let node = node(&[(1000, 0, vec![300; 10]), (1000, 2, vec![400; 10])]);
        assert_eq!((node.peak(0), node.used(0)), (800 + 300 + 350, 1100));
        // 2.33 × 0.5 × sqrt(300² + 400²) = 582.5
        assert_eq!((node.peak(2), node.used(2)), (800 + 700 + 583, 1500));
    }

    #[test]
    fn the_oracle_sees_one_day_of_the_present_pods() {
        let mut usage = vec![100; 400];
        usage[287] = 1000;
        usage[288] = 2000;
        let mut node = node(&[(1000, 0, usage), (1000, 0, vec![5000])]);
        node.begin(1);
        assert_eq!(node.coming_peak(), node.peak(288));
        node.begin(289);
        assert_eq!(node.coming_peak(), 800 + 100 + 117);
    }

    #[test]
    fn pods_end_with_their_life() {
        let mut node = node(&[(700, 0, vec![1; 3]), (300, 1, vec![1; 1199])]);
        node.begin(2);
        assert_eq!((node.bound(), node.generation), (1000, 2));
        node.begin(3);
        assert_eq!((node.bound(), node.generation), (300, 3));
        node.begin(1199);
        assert_eq!(node.pods().len(), 1, "the run ends, not the pod");
    }

    #[test]
    fn a_removed_pod_uses_nothing_from_the_current_frame_on() {
        let mut node = node(&[(1000, 0, vec![300; 10]), (500, 2, vec![400; 10])]);
        node.begin(5);
        node.remove("1");
        node.remove("unknown");
        assert_eq!((node.used(4), node.used(5), node.used(11)), (1500, 1100, 800));
        assert_eq!(
            (node.peak(5), node.bound(), node.generation),
            (800 + 300 + 350, 1000, 3)
        );
    }

    #[test]
    fn recent_use_covers_the_last_frames_of_the_window() {
        let node = node(&[(1, 5, vec![1, 2, 3, 4])]);
        let pod = &node.pods()[0];
        assert_eq!(
            (pod.recent_use(5, 9), pod.recent_use(7, 9), pod.recent_use(9, 2)),
            (&[][..], &[1, 2][..], &[3, 4][..])
        );
        assert_eq!((pod.used(4), pod.used(5), pod.used(9)), (None, Some(1), None));
    }
}
