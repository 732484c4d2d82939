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
pub(super) const HOUR: usize = FRAMES_AN_HOUR as usize;
/// Nodes that share service classes.
pub(super) const GROUP: u32 = 8;

/// A load: pods by their place in the backlog of a node, independent of the time of the call.
pub(super) trait Source: Sync {
    /// Seed of all random draws.
    fn seed(&self) -> u64;

    fn request(&self, node: u32, number: u32) -> u64;

    /// Use of a pod that starts in frame `start`.
    fn workload(&self, node: u32, number: u32, start: usize) -> Workload;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Workload {
    /// Upper limit of its use.
    pub(super) limit: u64,
    /// Mean use in each frame of its life, at most until the end of the run.
    pub(super) usage: Vec<u64>,
}

/// A node's size: capacity `C` and raw allocatable `A`. All nodes have the same size, so that ratios are comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) capacity: u64,
    pub(super) raw: u64,
    /// Constant use by the system.
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

/// Amount per CPU: 1000 milli-cores, or 4 GiB.
pub(super) const fn per_cpu(resource: Resource) -> u64 {
    match resource {
        Resource::Cpu => 1000,
        Resource::Memory => 4 << 30,
    }
}

/// Properties of a pod that do not depend on its use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Nature {
    pub(super) request: u64,
    pub(super) is_batch: bool,
    /// Length of its life in frames; at least one.
    pub(super) life: usize,
}

impl Nature {
    /// Draws a pod: request clip(exp(N(-0.2, 0.9)), 0.1, 8) CPUs; 40 % batch with a mean life of 2 hours, the others
    /// of 6 days.
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
