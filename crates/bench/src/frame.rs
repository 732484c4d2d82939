//! `bench frame`: the agent's CPU time for the end of a frame, by the number of pods on the node.
//!
//! The estimator is the agent's, under production's timing, with a day of frames behind it. The cost is CPU time of one
//! thread for the end of a frame and the estimates after it, the mean of many frames. All nodes take turns in one run,
//! so that a disturbance of the machine affects them all. The others are compared with a node without pods.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
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
    declaration::{BenchResult, Row},
};

/// The bench.
pub(crate) static ROW: Row = Row {
    name: "frame",
    about: "What the end of a frame costs the agent on nodes of 0 to 440 pods.",
    flags: FrameBench::augment_args,
    run: |flags| FrameBench::from_arg_matches(flags)?.run(),
};

/// Pods of the nodes that are compared. A kubelet takes 110 unless it is told otherwise.
const PODS: [u64; 4] = [0, 55, 110, 440];
/// How much more than four times as many pods may cost: what is linear costs four times as much, and less with what no pod
/// has a part in.
const MOST_OF_FOUR_TIMES: f64 = 6.0;

/// How long to measure.
#[derive(Debug, Args)]
struct FrameBench {
    /// Frames of each node that are measured.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..))]
    frames: u32,
}

/// The figures.
#[derive(Debug, Serialize)]
struct FrameReport {
    workload: String,
    nodes: Vec<NodeCost>,
    /// Cost of 440 pods over that of 110.
    four_times_the_pods: f64,
}

/// What a frame costs on one node.
#[derive(Debug, Serialize)]
struct NodeCost {
    pods: u64,
    frame_us: f64,
    /// Over the node without pods.
    over_none: f64,
}

/// A node whose frames end.
struct Node {
    estimator: Estimator,
    pods: u64,
    index: u64,
    spent: Duration,
}

impl FrameBench {
    fn run(&self) -> Result<BenchResult> {
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
        let report = FrameReport {
            workload: format!("{} frames of each node, every pod measured in each", self.frames),
            nodes: costs.collect(),
            four_times_the_pods,
        };
        let criterion = Criterion {
            figure: "four_times_the_pods".to_owned(),
            measured: four_times_the_pods,
            range: f64::NEG_INFINITY..=MOST_OF_FOUR_TIMES,
        };
        BenchResult::new(&report, vec![criterion]).context("report")
    }
}

impl Node {
    /// A node of 64 CPUs and 256 GiB whose pods request all of it and use a third, after a day.
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

    /// The next frame; use goes up and down by a third within two hours, and no two pods go together.
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

/// As the API server makes them: 36 characters.
fn uid(pod: u64) -> String {
    format!("5f0c6a52-8b1e-4d7a-9c3e-{pod:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_a_day_behind_it_trusts_its_pods() {
        let node = Node::with_history(110);
        let estimate = node.estimator.estimates().cpu;
        assert_eq!(estimate.coverage_ppm, 1_000_000);
        assert!(
            estimate.published.0 > 100,
            "{estimate:?}: a bench of what is never amplified measures nothing"
        );
    }
}
