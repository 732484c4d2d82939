//! The endless demand of a group of nodes: pods of services and of Jobs, with the life that the fleet's shape gives
//! them.

use headroom_domain::{capacity::places::PlaceKind, resource::Resource};
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::Exp1;

use super::{AUTOSCALED_LIFE, FleetShape, POD_LIFE};
use crate::{
    convert::{long, real, whole},
    node::{Owner, Pod},
    random::Stream,
    source::{DAY, HOUR, Nature, Workload},
    synthetic::Synthetic,
};

/// Services of a group.
pub(super) const SERVICES: u32 = 24;
/// CronJobs of a group.
const CRON_JOBS: u32 = 8;
/// Largest request of a service's pod or a Job, in milli-cores.
const LARGEST: u64 = 2000;
/// Frames over which the pods of a rollout are replaced.
const ROLLOUT: usize = HOUR;
/// Probability that a version uses more than the service's other versions, and its use compared with them.
const LARGER: (f64, f64) = (0.1, 1.2);
/// Number of the draws of a service that are not those of its pods.
const OF_SERVICE: u32 = 1 << 30;
/// Number of the draws of a version.
const OF_VERSION: u32 = 1 << 29;

/// A pod that a node may receive: a service or a CronJob, and its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) workload: u32,
    pub(super) request: u64,
}

/// A pod of the demand.
pub(super) struct Supplied {
    pub(super) pod: Pod,
    /// True if a rollout ends it, so that a pod of the next version follows.
    pub(super) is_rolled: bool,
}

/// The demand of one group.
pub(super) struct ElasticDemand<'a> {
    load: &'a Synthetic,
    group: u32,
    frames: usize,
    shape: FleetShape,
}

impl<'a> ElasticDemand<'a> {
    pub(super) const fn new(load: &'a Synthetic, group: u32, frames: usize, shape: FleetShape) -> Self {
        Self {
            load,
            group,
            frames,
            shape,
        }
    }

    fn draws(&self, number: u32) -> ChaCha8Rng {
        use crate::source::Source as _;
        let group = self.group;
        Stream::Elastic { group, number }.generator(self.load.seed())
    }

    pub(super) const fn is_job(wanted: Wanted) -> bool {
        wanted.workload >= SERVICES
    }

    fn wanted(&self, workload: u32) -> Wanted {
        let request = Nature::draw(Resource::Cpu, &mut self.draws(OF_SERVICE + workload)).request;
        Wanted {
            workload,
            request: request.min(LARGEST),
        }
    }

    /// Pod `number` that some node `node` wants.
    pub(super) fn next(&self, node: u32, number: u32, is_job: bool) -> Wanted {
        use crate::source::Source as _;
        let mut random = Stream::Pod { node, number }.generator(self.load.seed());
        self.wanted(if is_job {
            SERVICES + random.random_range(0..CRON_JOBS)
        } else {
            random.random_range(0..SERVICES)
        })
    }

    /// Frame of the day in which the service is rolled.
    fn rolled_at(&self, service: u32) -> usize {
        self.draws(OF_SERVICE + service + SERVICES + CRON_JOBS)
            .random_range(0..DAY)
    }

    fn is_autoscaled(&self, service: u32) -> bool {
        service * 100 < self.shape.autoscaled_percent * SERVICES
    }

    /// Pod `number` of the group, bound in frame `start`.
    pub(super) fn supply(&self, wanted: Wanted, number: u32, start: usize) -> Supplied {
        let Wanted { workload, request } = wanted;
        let mut random = self.draws(number);
        if Self::is_job(wanted) {
            let life = random.random_range(2..HOUR);
            let course = self.load.job(self.group, workload, request);
            let end = (start + life).min(self.frames);
            let used = course.workload(start, end, &mut random);
            return supplied(wanted, (0, number), start, used, false);
        }
        let mean = if self.is_autoscaled(workload) {
            AUTOSCALED_LIFE
        } else {
            POD_LIFE
        };
        let life = real(long(mean)) * random.sample::<f64, _>(Exp1);
        let life = usize::try_from(whole(life)).unwrap_or(usize::MAX).max(1);
        let jitter = random.random_range(1..=ROLLOUT);
        let phase = DAY - self.rolled_at(workload);
        let day = (start + phase) / DAY;
        let rolled = if self.shape.has_rollouts {
            (day + 1) * DAY - phase + jitter - start
        } else {
            usize::MAX
        };
        let version = if self.shape.has_rollouts {
            u32::try_from(day).unwrap_or_default()
        } else {
            0
        };
        let mut of_version = self.draws(OF_VERSION + version * SERVICES + workload);
        let (probability, larger) = LARGER;
        let factor = if of_version.random_bool(probability) {
            larger
        } else {
            1.0
        };
        let course = self.load.service(self.group, workload, request).scaled(factor);
        let end = start.saturating_add(life.min(rolled)).min(self.frames);
        let used = course.workload(start, end, &mut random);
        supplied(wanted, (version, number), start, used, rolled <= life)
    }
}

fn supplied(
    wanted: Wanted,
    (version, number): (u32, u32),
    start: usize,
    used: Workload,
    is_rolled: bool,
) -> Supplied {
    let Workload { limit, usage } = used;
    Supplied {
        pod: Pod {
            uid: format!("pod-{number:08}"),
            owner: Some(Owner {
                controller: u64::from(wanted.workload) + 1,
                version: u64::from(version),
                kind: PlaceKind::Other,
            }),
            request: wanted.request,
            limit,
            start,
            usage,
        },
        is_rolled,
    }
}
