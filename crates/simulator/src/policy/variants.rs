//! Experimental variants of Headroom's policy, and the bare peak rule. They run on the same pods, but not in the
//! agent.

use std::collections::VecDeque;

use headroom_domain::{
    estimate::{Estimate, Frame, Profile, Timing},
    resource::Resource,
};

use super::{Kind, MeasuredSlack, Policy};
use crate::{
    convert::{real, whole},
    node::{Node, Pod},
    source::HOUR,
};

const WEEK: usize = 168;
const WEEK_FRAMES: u32 = 2016;
/// Expected minimum of five draws from a normal distribution, in standard deviations below the mean.
const LEAST_OF_FIVE: f64 = 1.163;
/// Seconds in a minute: one of the five sub-frames of a frame averages as many.
const SECONDS: f64 = 60.0;
/// Frames after which a sibling's history allows full trust: four hours.
const EARLY: u32 = 48;

pub(super) static PEAK_RULE: Kind = Kind {
    name: super::PEAK_RULE,
    about: "headroom without margin, calibration, dead band and slow rise: the peak alone",
    build: |settings| Box::new(PeakRule(MeasuredSlack::new(settings))),
};
pub(super) static WEEKLY: Kind = Kind {
    name: "headroom-week",
    about: "headroom, with the highest peak of each hour of the last week in addition to the last day's",
    build: |settings| {
        Box::new(Weekly {
            ours: MeasuredSlack::new(settings),
            hours: VecDeque::new(),
            highest: 0,
        })
    },
};
pub(super) static WEEK_OF_FRAMES: Kind = Kind {
    name: "headroom-7d-ring",
    about: "headroom, with a ring of a week's frames instead of a day's",
    build: |settings| {
        let timing = Timing {
            ring_frames: WEEK_FRAMES,
            ..Profile::Production.timing()
        };
        Box::new(MeasuredSlack::with(settings, timing))
    },
};
pub(super) static MIN_OF_FIVE: Kind = Kind {
    name: "headroom-min-of-5",
    about: "headroom, subtracting the lowest of five minutes instead of the mean for a pod that ended",
    build: |settings| Box::new(MinOfFive(MeasuredSlack::new(settings))),
};
pub(super) static SIBLINGS: Kind = Kind {
    name: "headroom-4h-ramp",
    about: "headroom, with full trust after 4 hours: the upper bound for using the history of siblings",
    build: |settings| {
        let timing = Timing {
            trust_full: EARLY,
            ..Profile::Production.timing()
        };
        Box::new(MeasuredSlack::with(settings, timing))
    },
};

/// S with T = theta × C, for memory theta × A, for every theta; Headroom's own T ends at A.
#[derive(Debug)]
struct PeakRule(MeasuredSlack);

impl Policy for PeakRule {
    fn allocatable(&mut self, node: &Node) -> u64 {
        self.0.allocatable(node);
        let settings = *self.0.settings();
        let slack = self.0.estimate().slack;
        let most = match settings.resource {
            Resource::Cpu => node.machine.capacity,
            Resource::Memory => node.machine.raw,
        };
        let safe = i128::from(most) * i128::from(settings.theta_ppm) / 1_000_000;
        settings.bounded(safe + i128::from(slack.warm_requests) - i128::from(slack.peak))
    }

    fn predicted_peak(&mut self, _node: &Node) -> Option<u64> {
        let slack = self.0.estimate().slack;
        Some(slack.peak + (slack.bound - slack.warm_requests))
    }

    fn end_frame(&mut self, node: &Node) {
        self.0.end_frame(node);
    }
}

/// The peak of an hour. As in the day's ring, the use of pods that ran then and have ended since is subtracted.
#[derive(Debug)]
struct Hour {
    start: usize,
    peak: u64,
    /// Lowest use of each pod that ran through the whole hour; subtracted when the pod ends.
    least: Vec<(String, u64)>,
}

/// A week's ring of hours in addition to the day's ring of frames. The result is Headroom's, limited by the week's
/// highest peak, which is recomputed for the present pods at the end of each hour.
#[derive(Debug)]
struct Weekly {
    ours: MeasuredSlack,
    hours: VecDeque<Hour>,
    highest: u64,
}

impl Hour {
    fn summarize(node: &Node, start: usize) -> Self {
        let frames = start..start + HOUR;
        let least = |pod: &Pod| frames.clone().filter_map(|frame| pod.used(frame)).min();
        let lived_through = |pod: &&Pod| pod.start <= start;
        let pods = node.pods().iter().filter(lived_through);
        Self {
            start,
            peak: frames
                .clone()
                .map(|frame| node.peak(frame))
                .max()
                .unwrap_or_default(),
            least: pods
                .filter_map(|pod| Some((pod.uid.clone(), least(pod)?)))
                .collect(),
        }
    }

    /// The hour's peak for the present pods.
    fn conditioned(&self, node: &Node) -> u64 {
        let is_here = |uid: &String| node.pods().iter().any(|pod| pod.uid == *uid);
        let left: u64 = self
            .least
            .iter()
            .filter(|(uid, _)| !is_here(uid))
            .map(|(_, least)| least)
            .sum();
        let came = node.pods().iter().filter(|pod| pod.start > self.start);
        let highest = |pod: &Pod| pod.recent_use(node.now, WEEK * HOUR).iter().max().copied();
        self.peak.saturating_sub(left) + came.filter_map(highest).sum::<u64>()
    }
}

impl Policy for Weekly {
    fn allocatable(&mut self, node: &Node) -> u64 {
        let given = self.ours.allocatable(node);
        let Estimate {
            slack, margin_ppm, ..
        } = self.ours.estimate();
        let peak = i128::from(self.highest) * (1_000_000 + i128::from(margin_ppm)) / 1_000_000;
        let left = i128::from(slack.safe) + i128::from(slack.warm_requests) - peak;
        given.min(self.ours.settings().bounded(left))
    }

    fn predicted_peak(&mut self, node: &Node) -> Option<u64> {
        self.ours.predicted_peak(node)
    }

    fn end_frame(&mut self, node: &Node) {
        if (node.now + 1).is_multiple_of(HOUR) {
            if self.hours.len() == WEEK {
                self.hours.pop_front();
            }
            self.hours.push_back(Hour::summarize(node, node.now + 1 - HOUR));
            let highest = self.hours.iter().map(|hour| hour.conditioned(node)).max();
            self.highest = highest.unwrap_or_default();
        }
        self.ours.end_frame(node);
    }
}

/// Independent seconds with the run's spread: the mean of a minute has that spread divided by the root of 60.
#[derive(Debug)]
struct MinOfFive(MeasuredSlack);

impl Policy for MinOfFive {
    fn allocatable(&mut self, node: &Node) -> u64 {
        self.0.allocatable(node)
    }

    fn predicted_peak(&mut self, node: &Node) -> Option<u64> {
        self.0.predicted_peak(node)
    }

    fn end_frame(&mut self, node: &Node) {
        let part = 1.0 - LEAST_OF_FIVE * node.cv() / SECONDS.sqrt();
        let mut frame: Frame = self.0.frame(node);
        for used in frame.pods.values_mut() {
            used.low.cpu = whole(real(used.low.cpu) * part);
            used.low.memory = whole(real(used.low.memory) * part);
        }
        self.0.end(&frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::node;

    #[test]
    fn an_hours_peak_is_conditioned_on_the_present_pods() {
        let mut node = node(&[
            (1000, 0, vec![400; 1200]),
            (1000, 0, vec![300; 20]),
            (1000, 15, vec![700; 1185]),
        ]);
        node.begin(11);
        let hour = Hour::summarize(&node, 0);
        // 800 for the system, 700, and 1.165 × 500 for the spread.
        assert_eq!((hour.peak, hour.conditioned(&node)), (2083, 2083));
        // Since then the third pod started and the second ended.
        node.begin(30);
        assert_eq!(hour.conditioned(&node), 2083 + 700 - 300);
    }
}
