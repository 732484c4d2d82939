//! `bench frame`: the agent's CPU time for the end of a frame, by the number of pods on the node.
//!
//! The estimator is the agent's, with production timing and a day of frames. The cost is CPU time of one thread for
//! the end of a frame and the following estimates, averaged over many frames. All nodes take turns in one run, so
//! that a disturbance of the machine affects them all. Each node is compared with a node without pods.

use std::{collections::BTreeMap, time::Duration};

use clap::{Args, FromArgMatches as _};
use headroom_domain::{
    estimate::{Estimator, Frame, PodRequest, PodUse, Profile, View},
    policy::Policy,
    resource::PerResource,
};
use headroom_testbed::thread::cpu_time;
use serde::Serialize;

use crate::{
    criterion::Criterion,
    declaration::{BenchResult, Report, Row},
};

pub(crate) static ROW: Row = Row {
    name: "frame",
    about: "Measures the agent's CPU time for the end of a frame on nodes with 0 to 440 pods.",
    flags: FrameBench::augment_args,
    run: |flags| BenchResult::new(&FrameBench::from_arg_matches(flags)?.run()),
};

/// Pods of the compared nodes. A kubelet accepts 110 by default.
const PODS: [u64; 4] = [0, 55, 110, 440];
/// Limit of the cost for four times as many pods: linear cost is four times as high, or less because of the part that
/// does not depend on pods.
const MOST_OF_FOUR_TIMES: f64 = 6.0;

#[derive(Debug, Args)]
struct FrameBench {
    /// Number of measured frames per node.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..))]
    frames: u32,
}

#[derive(Debug, Serialize)]
struct FrameReport {
    workload: String,
    nodes: Vec<NodeCost>,
    /// Cost with 440 pods divided by the cost with 110.
    four_times_the_pods: f64,
}

#[derive(Debug, Serialize)]
struct NodeCost {
    pods: u64,
    frame_us: f64,
    /// Cost divided by that of the node without pods.
    over_none: f64,
}

/// A node with its estimator.
struct Node {
    estimator: Estimator,
    pods: u64,
    index: u64,
    spent: Duration,
}

impl FrameBench {
    fn run(&self) -> FrameReport {
        let mut nodes = PODS.map(Node::with_history);
        for _ in 0..self.frames {
            for node in &mut nodes {
                let frame = node.next_frame();
                let start = cpu_time();
                node.end(&frame);
                node.spent += cpu_time().saturating_sub(start);
            }
        }
        let cost = |node: &Node| node.spent.as_secs_f64() * 1e6 / f64::from(self.frames);
        let [none, .., default, four] = &nodes;
        let four_times_the_pods = cost(four) / cost(default);
        let costs = nodes.iter().map(|node| NodeCost {
            pods: node.pods,
            frame_us: cost(node),
            over_none: cost(node) / cost(none),
        });
        FrameReport {
            workload: format!(
                "{} frames per node, with a measurement of every pod in each",
                self.frames
            ),
            nodes: costs.collect(),
            four_times_the_pods,
        }
    }
}

impl Report for FrameReport {
    fn criteria(&self) -> Vec<Criterion> {
        vec![Criterion::at_most(
            "four_times_the_pods",
            self.four_times_the_pods,
            MOST_OF_FOUR_TIMES,
        )]
    }
}

impl Node {
    /// A node of 64 CPUs and 256 GiB after a day in which its pods requested all of it and used a third.
    fn with_history(pods: u64) -> Self {
        let timing = Profile::Production.timing();
        let capacity = PerResource {
            cpu: 64_000,
            memory: 256 << 30,
        };
        let request = PodRequest {
            requests: capacity.map(|_, amount| amount / pods.max(1)),
            ..PodRequest::default()
        };
        let Policy {
            bounds, target_ppm, ..
        } = Policy::default();
        let mut estimator = Estimator::new(timing);
        estimator.set_view(View {
            generation: 1,
            capacity,
            raw: capacity,
            pods: (0..pods).map(|pod| (uid(pod), request)).collect(),
            admitted: PerResource::default(),
            bounds,
            target_ppm,
        });
        let mut node = Self {
            estimator,
            pods,
            index: 0,
            spent: Duration::ZERO,
        };
        for _ in 0..timing.ring_frames {
            let frame = node.next_frame();
            node.end(&frame);
        }
        node
    }

    /// The next frame; use varies by a third within two hours, with another phase for each pod.
    fn next_frame(&mut self) -> Frame {
        self.index += 1;
        let used = |pod: u64| {
            let swing = (self.index + pod) % 24;
            let share = |amount: u64| amount / 3 / self.pods.max(1) * (24 + swing) / 36;
            let used = PerResource {
                cpu: share(64_000),
                memory: share(256 << 30),
            };
            PodUse {
                low: used,
                high: used,
            }
        };
        let pods: BTreeMap<_, _> = (0..self.pods).map(|pod| (uid(pod), used(pod))).collect();
        let sum = |part: fn(&PodUse) -> u64| pods.values().map(part).sum::<u64>();
        Frame {
            index: self.index,
            is_valid: true,
            peak: PerResource {
                cpu: sum(|pod| pod.high.cpu) * 5 / 4,
                memory: sum(|pod| pod.high.memory),
            },
            pods,
            ..Frame::default()
        }
    }

    fn end(&mut self, frame: &Frame) {
        self.estimator.end_frame(frame);
        std::hint::black_box(self.estimator.estimates());
    }
}

/// 36 characters, as in a cluster.
fn uid(pod: u64) -> String {
    format!("5f0c6a52-8b1e-4d7a-9c3e-{pod:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_day_of_frames_the_node_is_amplified() {
        let node = Node::with_history(110);
        let estimate = node.estimator.estimates().cpu;
        assert_eq!(estimate.coverage_ppm, 1_000_000);
        assert!(
            estimate.published.0 > 100,
            "the node is not amplified: {estimate:?}"
        );
    }
}
