//! The synthetic load: services with daily and weekly cycles and shared surges, batch pods, and spikes.

use std::f64::consts::TAU;

use anyhow::{Context as _, Result};
use headroom_domain::resource::Resource;
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Beta, Distribution as _, Exp1, StandardNormal};

use super::{
    convert::{long, real, whole},
    random::{Ar1, Stream},
    source::{DAY, GROUP, Nature, Source, Workload},
};

/// Service classes of a group of nodes.
const CLASSES: u32 = 12;
/// Mean use per request, mu, of the services of a node; nodes cycle through these values.
const MEANS: [f64; 4] = [0.18, 0.28, 0.38, 0.55];
/// Mean number of frames between surges of a class.
const SURGE_EVERY: f64 = 4.0 * 288.0;
/// Probability of a spike of a pod, per frame.
const SPIKE: f64 = 0.0015;
/// Frames in which a slow starter uses [`WARMING_SHARE`] of its usual use.
const WARMING: usize = 6;
/// Share of the usual use while a slow starter warms up.
const WARMING_SHARE: f64 = 0.3;

/// The load of a whole run.
#[derive(Debug)]
pub(super) struct Synthetic {
    seed: u64,
    frames: usize,
    /// Index: group and class; the factor of each frame.
    classes: Vec<Vec<f64>>,
    batch: Beta<f64>,
    services: Vec<Beta<f64>>,
}

/// Daily cycle of a service.
#[derive(Debug, Clone, Copy)]
struct Clock {
    amplitude: f64,
    /// Hour of the day with the highest use.
    peak: f64,
}

/// Random course of a pod's use, except for its own noise and spikes.
#[derive(Debug, Clone)]
pub(super) struct Course<'a> {
    request: f64,
    is_batch: bool,
    /// Mean use per request.
    base: f64,
    /// Upper limit of use per request.
    cap: f64,
    clock: Clock,
    /// Factor of each frame that all services of the class share.
    class: &'a [f64],
    starts_slowly: bool,
}

/// A period in which use is multiplied.
#[derive(Debug, Clone, Copy, Default)]
struct Burst {
    left: u32,
    factor: f64,
}

/// Mean use per request of the services of a node.
pub(super) fn mean_use(node: u32) -> f64 {
    let turn = usize::try_from(node).unwrap_or_default() % MEANS.len();
    MEANS.get(turn).copied().unwrap_or_default()
}

impl Synthetic {
    /// A load for this number of nodes and frames.
    ///
    /// # Errors
    /// Never with the parameters of appendix A.
    pub(super) fn new(seed: u64, nodes: u32, frames: usize) -> Result<Self> {
        let groups = nodes.div_ceil(GROUP);
        let class = |group| (0..CLASSES).map(move |class| class_series(seed, group, class, frames));
        let service = |mu: f64| Beta::new(2.0, 2.0 / mu - 2.0).context("invalid distribution of services");
        Ok(Self {
            seed,
            frames,
            classes: (0..groups).flat_map(class).collect(),
            batch: Beta::new(4.0, 3.0).context("invalid distribution of batch pods")?,
            services: MEANS.into_iter().map(service).collect::<Result<_>>()?,
        })
    }

    /// Draws a pod's course of use on `node`.
    fn course(&self, node: u32, request: u64, is_batch: bool, random: &mut ChaCha8Rng) -> Course<'_> {
        Course {
            request: real(request),
            is_batch,
            base: self.base(node, is_batch, random),
            cap: match random.random::<f64>() {
                part if part < 0.3 => 1.0,
                part if part < 0.7 => 2.0,
                _ => 4.0,
            },
            clock: Clock::draw(random),
            class: self.class(node, random),
            starts_slowly: random.random_bool(0.5),
        }
    }

    /// Draws the course of use that all replicas of a service of a group share.
    pub(super) fn service(&self, group: u32, service: u32, request: u64) -> Course<'_> {
        let mut random = Stream::Service { group, service }.generator(self.seed);
        self.course(group * GROUP + service % GROUP, request, false, &mut random)
    }

    /// Draws the course of use that all pods of a CronJob share.
    pub(super) fn job(&self, group: u32, job: u32, request: u64) -> Course<'_> {
        let mut random = Stream::Service { group, service: job }.generator(self.seed);
        self.course(group * GROUP, request, true, &mut random)
    }

    fn base(&self, node: u32, is_batch: bool, random: &mut ChaCha8Rng) -> f64 {
        let turn = usize::try_from(node).unwrap_or_default() % MEANS.len();
        match self.services.get(turn) {
            Some(service) if !is_batch => service.sample(random),
            _ => self.batch.sample(random),
        }
    }

    fn class(&self, node: u32, random: &mut ChaCha8Rng) -> &[f64] {
        let class = node / GROUP * CLASSES + random.random_range(0..CLASSES);
        let class = usize::try_from(class).unwrap_or_default();
        self.classes.get(class).map_or(&[], Vec::as_slice)
    }
}

impl Source for Synthetic {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn request(&self, node: u32, number: u32) -> u64 {
        Nature::draw(
            Resource::Cpu,
            &mut Stream::Pod { node, number }.generator(self.seed),
        )
        .request
    }

    /// request × min(cap, base × clock × exp(0.25 own + 0.20 class) × surge × spike), as in appendix A.
    fn workload(&self, node: u32, number: u32, start: usize) -> Workload {
        let mut random = Stream::Pod { node, number }.generator(self.seed);
        let nature = Nature::draw(Resource::Cpu, &mut random);
        let course = self.course(node, nature.request, nature.is_batch, &mut random);
        let end = start.saturating_add(nature.life).min(self.frames);
        course.workload(start, end, &mut random)
    }
}

impl Course<'_> {
    /// Course with `factor` times the use.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self {
            base: self.base * factor,
            ..self
        }
    }

    /// Use from frame `start` to `end`, with the noise and the spikes of one pod.
    pub(super) fn workload(&self, start: usize, end: usize, random: &mut ChaCha8Rng) -> Workload {
        let mut own = Ar1::new(0.95, random);
        let mut spike = Burst::default();
        let mut use_in = |frame| {
            let shared = if self.is_batch {
                1.0
            } else {
                self.clock.factor(frame) * self.class.get(frame).copied().unwrap_or(1.0)
            };
            let warming = if self.starts_slowly && frame < start + WARMING {
                WARMING_SHARE
            } else {
                1.0
            };
            let noise = (0.25 * own.next(random)).exp();
            let share = self.base * shared * noise * spike.spiked(random) * warming;
            whole(self.request * share.min(self.cap))
        };
        Workload {
            limit: whole(self.request * self.cap),
            usage: (start..end).map(&mut use_in).collect(),
        }
    }
}

impl Clock {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let normal: f64 = random.sample(StandardNormal);
        Self {
            amplitude: random.random_range(0.2..0.8),
            peak: 14.0 + 2.0 * normal,
        }
    }

    fn factor(self, frame: usize) -> f64 {
        let hour = real(long(frame % DAY)) / 12.0;
        let day = 1.0 + self.amplitude * (TAU * (hour - self.peak) / 24.0).cos();
        let is_weekend = frame / DAY % 7 >= 5;
        if is_weekend { 0.7 * day } else { day }
    }
}

impl Burst {
    /// The factor of a pod's next frame: 1, or between 1.5 and 4 for three frames on average.
    fn spiked(&mut self, random: &mut ChaCha8Rng) -> f64 {
        if self.left == 0 && random.random_bool(SPIKE) {
            self.factor = random.random_range(1.5..4.0);
            self.left = 1;
            while random.random_bool(2.0 / 3.0) {
                self.left += 1;
            }
        }
        self.taken()
    }

    fn taken(&mut self) -> f64 {
        if self.left == 0 {
            return 1.0;
        }
        self.left -= 1;
        self.factor
    }
}

/// The common part of all services of a class: slow noise, and surges of one to three hours.
fn class_series(seed: u64, group: u32, class: u32, frames: usize) -> Vec<f64> {
    let mut random = Stream::Class { group, class }.generator(seed);
    let mut noise = Ar1::new(0.97, &mut random);
    let mut surge = Burst::default();
    let mut quiet = SURGE_EVERY * random.sample::<f64, _>(Exp1);
    (0..frames)
        .map(|_| {
            quiet -= 1.0;
            if quiet <= 0.0 {
                surge = Burst {
                    left: random.random_range(12..=36),
                    factor: random.random_range(1.3..1.8),
                };
                quiet = SURGE_EVERY * random.sample::<f64, _>(Exp1);
            }
            (0.20 * noise.next(&mut random)).exp() * surge.taken()
        })
        .collect()
}

#[cfg(test)]
mod tests;
