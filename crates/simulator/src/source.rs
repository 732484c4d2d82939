//! The `Source` trait: a load of pods, with the same backlog for every policy. Also the size of a simulated node.

use headroom_domain::{
    estimate::{FRAMES_A_DAY, FRAMES_AN_HOUR},
    resource::Resource,
};
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Exp1, StandardNormal};

use super::convert::{real, whole};

/// Frames of five minutes in a day.
pub(super) const DAY: usize = FRAMES_A_DAY as usize;
/// Frames in an hour.
pub(super) const HOUR: usize = FRAMES_AN_HOUR as usize;
/// Nodes that share service classes.
pub(super) const GROUP: u32 = 8;

/// A load: pods by their place in the backlog of a node. What comes does not depend on when it was asked for.
pub(super) trait Source: Sync {
    /// The seed that everything is drawn with.
    fn seed(&self) -> u64;

    /// What the pod asks for.
    fn request(&self, node: u32, number: u32) -> u64;

    /// What the pod does if it starts in frame `start`.
    fn workload(&self, node: u32, number: u32, start: usize) -> Workload;
}

/// What a pod does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Workload {
    /// What it cannot use more of.
    pub(super) limit: u64,
    /// What it uses on average in each frame of its life, up to the end of the run.
    pub(super) usage: Vec<u64>,
}

/// A node's size. All nodes are the same, so that ratios compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Machine {
    /// C.
    pub(super) capacity: u64,
    /// A.
    pub(super) raw: u64,
    /// What the system uses all the time.
    pub(super) system: u64,
}

impl Machine {
    /// 32 CPUs of which 31.5 are allocatable and 0.8 used by the system; for memory, 4 GiB for each CPU.
    pub(super) fn for_resource(resource: Resource) -> Self {
        let cpu = per_cpu(resource);
        Self {
            capacity: cpu * 32,
            raw: cpu * 63 / 2,
            system: cpu * 4 / 5,
        }
    }
}

/// The amount that stands for one CPU: 1000 milli-cores, or 4 GiB.
pub(super) const fn per_cpu(resource: Resource) -> u64 {
    match resource {
        Resource::Cpu => 1000,
        Resource::Memory => 4 << 30,
    }
}

/// What a pod is, whatever it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Nature {
    /// Its request.
    pub(super) request: u64,
    /// False for a service.
    pub(super) is_batch: bool,
    /// How long it lives, in frames; at least one.
    pub(super) life: usize,
}

impl Nature {
    /// Draws a pod: request clip(exp(N(-0.2, 0.9)), 0.1, 8) CPUs; 40 % batch with a mean life of 2 hours, the others of 6
    /// days.
    pub(super) fn draw(resource: Resource, random: &mut ChaCha8Rng) -> Self {
        let normal: f64 = random.sample(StandardNormal);
        let cpus = (0.9 * normal - 0.2).exp().clamp(0.1, 8.0);
        let is_batch = random.random_bool(0.4);
        let mean_life = if is_batch { 24.0 } else { 6.0 * 288.0 };
        let life = mean_life * random.sample::<f64, _>(Exp1);
        Self {
            request: whole(cpus * real(per_cpu(resource))),
            is_batch,
            life: usize::try_from(whole(life)).unwrap_or(usize::MAX).max(1),
        }
    }
}
