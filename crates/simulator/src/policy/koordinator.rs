//! Koordinator's peak predictor, applied to native capacity: it adds requests that pods never use.
//!
//! koordinator, `pkg/koordlet/prediction`: per pod and for all pods together an exponential histogram with decay
//! (CPU: first bucket 0.025 cores, 5 % growth, up to 1024 cores, half-life 12 h, p95; memory: 5 MiB, 5 %, 2 TiB, 24
//! h, p98), each peak with a safety margin of 10 %; only pods older than 24 h contribute. Reclaimable = min(sum of
//! request - peak, all requests - peak of all - peak of the system, capacity unused now), and in both predictions at
//! most the capacity minus the peaks. Koordinator uses it for extended resources; here it is added to allocatable.
//! Koordinator trains on means of a minute; here a frame is the shortest time.

use std::collections::HashMap;

use headroom_domain::resource::Resource;

use super::{Kind, Policy, Settings};
use crate::{
    convert::{real, whole},
    node::Node,
    source::DAY,
};

/// Growth of a bucket's width relative to the previous one.
const GROWTH: f64 = 1.05;

pub(super) static KIND: Kind = Kind {
    name: "koordinator-peak",
    about: "p95 x 1.1 of decayed histograms, of pods older than 24 h (koordinator)",
    build: |settings| Box::new(Peak::new(settings)),
};

#[derive(Debug)]
struct Peak {
    settings: Settings,
    shape: Shape,
    pods: HashMap<String, Histogram>,
    all: Histogram,
}

/// Parameters common to histograms of one resource.
#[derive(Debug)]
struct Shape {
    /// Lower ends of buckets; the last one is at or beyond the maximum.
    starts: Vec<f64>,
    /// Frames after which a sample's weight has halved.
    half_life: f64,
    percentile: f64,
}

/// Weights by bucket. Instead of lowering the weight of old samples, that of new samples grows.
#[derive(Debug, Default)]
struct Histogram {
    weights: Vec<f64>,
    total: f64,
    samples: u64,
}

impl Peak {
    fn new(settings: &Settings) -> Self {
        Self {
            settings: *settings,
            shape: Shape::published(settings.resource),
            pods: HashMap::new(),
            all: Histogram::default(),
        }
    }

    fn reclaimable(&self, node: &Node) -> u64 {
        let peak = |histogram: &Histogram| with_margin(whole(histogram.peak(&self.shape)));
        let old = node.pods().iter().filter(|pod| node.now >= pod.start + DAY);
        let peaks = old.filter_map(|pod| Some((pod.request, peak(self.pods.get(&pod.uid)?))));
        let (given, kept) = peaks.fold((0, 0), |(given, kept), (request, peak)| {
            (given + request.saturating_sub(peak), kept + peak)
        });
        let capacity = node.machine.capacity;
        let of_pods = capacity.saturating_sub(kept).min(given);
        let of_node = capacity
            .min(node.bound())
            .saturating_sub(peak(&self.all) + with_margin(node.machine.system));
        let last = node.now.saturating_sub(1);
        let unused = capacity.saturating_sub(node.used(last));
        of_pods.min(of_node).min(unused)
    }
}

/// Adds the safety margin of 10 % to a peak.
fn with_margin(peak: u64) -> u64 {
    (peak * 11).div_ceil(10)
}

impl Policy for Peak {
    fn allocatable(&mut self, node: &Node) -> u64 {
        let wanted = node.machine.raw + self.reclaimable(node);
        self.settings.bounded(i128::from(wanted))
    }

    fn predicted_peak(&mut self, node: &Node) -> Option<u64> {
        Some(node.bound() + node.machine.system - self.reclaimable(node))
    }

    fn end_frame(&mut self, node: &Node) {
        self.pods
            .retain(|uid, _| node.pods().iter().any(|pod| pod.uid == *uid));
        for pod in node.pods() {
            if let Some(used) = pod.used(node.now) {
                self.pods
                    .entry(pod.uid.clone())
                    .or_default()
                    .add(used, &self.shape);
            }
        }
        self.all
            .add(node.used(node.now) - node.machine.system, &self.shape);
    }
}

impl Shape {
    /// Published parameters: CPU in milli-cores, memory in bytes.
    fn published(resource: Resource) -> Self {
        match resource {
            Resource::Cpu => Self::new(25.0, 1_024_000.0, 144.0, 0.95),
            Resource::Memory => Self::new(real(5 << 20), real(2 << 40), 288.0, 0.98),
        }
    }

    fn new(first: f64, most: f64, half_life: f64, percentile: f64) -> Self {
        let mut starts = vec![0.0];
        let (mut start, mut width) = (0.0, first);
        while start < most {
            start += width;
            starts.push(start);
            width *= GROWTH;
        }
        Self {
            starts,
            half_life,
            percentile,
        }
    }
}

impl Histogram {
    fn add(&mut self, used: u64, shape: &Shape) {
        self.weights.resize(shape.starts.len(), 0.0);
        let weight = (real(self.samples) / shape.half_life).exp2();
        let bucket = shape.starts.partition_point(|&start| start <= real(used));
        if let Some(held) = self.weights.get_mut(bucket.saturating_sub(1)) {
            *held += weight;
        }
        self.total += weight;
        self.samples += 1;
    }

    /// Upper end of the bucket that contains the percentile.
    fn peak(&self, shape: &Shape) -> f64 {
        let mut sum = 0.0;
        let reaches = |weight: &f64| {
            sum += weight;
            sum >= shape.percentile * self.total
        };
        let bucket = self.weights.iter().position(reaches).unwrap_or_default();
        let last = shape.starts.len().saturating_sub(1);
        shape
            .starts
            .get((bucket + 1).min(last))
            .copied()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_by_a_twentieth_up_to_the_maximum() {
        let [cpu, memory] =
            [Resource::Cpu, Resource::Memory].map(|resource| Shape::published(resource).starts);
        assert_eq!(cpu.get(..4), Some(&[0.0, 25.0, 51.25, 78.8125][..]));
        assert_eq!((cpu.len(), memory.len()), (158, 205));
        assert!(cpu[156] < 1_024_000.0 && cpu[157] >= 1_024_000.0);
    }

    #[test]
    fn old_samples_lose_half_their_weight_in_a_half_life() {
        let shape = Shape::new(25.0, 1_024_000.0, 2.0, 0.5);
        let mut histogram = Histogram::default();
        for used in [1000, 1000, 0, 0] {
            histogram.add(used, &shape);
        }
        // 1 + 1.41 high samples and 2 + 2.83 low ones: the median is low, in the first bucket.
        assert!((histogram.peak(&shape) - 25.0).abs() < 1e-9);
    }
}
