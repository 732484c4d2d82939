//! Independent streams of random numbers: one for each service class, pod and frame of a node.
//!
//! The decisions of one policy about a pod therefore never change the draws of another policy.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    /// A service class of a group of nodes.
    Class { group: u32, class: u32 },
    /// Pod number `number` in the backlog of a node.
    Pod {
        node: u32,
        /// The pod's place in the backlog.
        number: u32,
    },
    /// A service whose replicas a controller spreads over a group of nodes.
    Service { group: u32, service: u32 },
    /// A pod of a service.
    Replica { group: u32, number: u32 },
    /// A pod or a version of an elastic fleet, or the life of one of its nodes.
    Elastic { group: u32, number: u32 },
    /// The seconds of a frame of a node.
    Seconds { node: u32, frame: u32 },
}

impl Stream {
    /// The stream's generator. ChaCha is a specified algorithm: the same seed gives the same numbers on every
    /// machine.
    pub(super) fn generator(self, seed: u64) -> ChaCha8Rng {
        let (kind, upper, lower) = match self {
            Self::Class { group, class } => (1 << 63, group, class),
            Self::Pod { node, number } => (0, node, number),
            Self::Service { group, service } => (1 << 61, group, service),
            Self::Replica { group, number } => (3 << 61, group, number),
            Self::Elastic { group, number } => (5 << 61, group, number),
            Self::Seconds { node, frame } => (1 << 62, node, frame),
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(kind | u64::from(upper) << 32 | u64::from(lower));
        random
    }
}

/// A first-order autoregressive series with mean 0 and variance 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ar1 {
    value: f64,
    keep: f64,
}

impl Ar1 {
    /// A settled series that keeps the share `keep` of its previous value.
    pub(super) fn new(keep: f64, random: &mut ChaCha8Rng) -> Self {
        Self {
            value: random.sample(StandardNormal),
            keep,
        }
    }

    pub(super) fn next(&mut self, random: &mut ChaCha8Rng) -> f64 {
        let fresh: f64 = random.sample(StandardNormal);
        self.value = self.keep * self.value + (1.0 - self.keep * self.keep).sqrt() * fresh;
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, stream: Stream| stream.generator(seed).random::<u64>();
        let pod = Stream::Pod { node: 1, number: 2 };
        assert_eq!(draw(7, pod), draw(7, pod));
        let others = [
            draw(8, pod),
            draw(7, Stream::Pod { node: 2, number: 1 }),
            draw(7, Stream::Class { group: 1, class: 2 }),
        ];
        assert!(others.iter().all(|&other| other != draw(7, pod)));
    }

    #[test]
    fn an_autoregressive_series_has_unit_variance() {
        let mut random = Stream::Pod { node: 0, number: 0 }.generator(1);
        let mut series = Ar1::new(0.95, &mut random);
        let values: Vec<f64> = (0..100_000).map(|_| series.next(&mut random)).collect();
        let variance = values.iter().map(|value| value * value).sum::<f64>() / 100_000.0;
        assert!((0.9..1.1).contains(&variance), "{variance}");
    }
}
