//! What figures do not show: a node's day, the reaction to a step of load, the margin over time.

use super::{
    closed::Run,
    figures::DISCARDED,
    node::{Node, Pod},
    policy::{Measured, Policy as _, Settings},
    real::{long, real},
    source::{DAY, per_cpu},
};

/// A value at a time.
pub(super) type Points = Vec<(f64, f64)>;

/// One node under our policy, in CPUs (or in as many times 4 GiB), by hour or day.
#[derive(Debug, Clone, Default)]
pub(super) struct Scene {
    /// F.
    pub(super) demand: Points,
    /// P and, in full, requests that are not trusted yet.
    pub(super) predicted: Points,
    /// What is advertised.
    pub(super) allocatable: Points,
    /// R.
    pub(super) bound: Points,
}

impl Scene {
    fn take(&mut self, time: f64, node: &Node, allocatable: u64, policy: &mut Measured, unit: f64) {
        let push = |points: &mut Points, value: u64| points.push((time, real(value) / unit));
        push(&mut self.demand, node.peak(node.now));
        push(
            &mut self.predicted,
            policy.predicted_peak(node).unwrap_or_default(),
        );
        push(&mut self.allocatable, allocatable);
        push(&mut self.bound, node.bound());
    }
}

/// The last day of a node in the closed loop, by hour.
pub(super) fn day(run: &Run<'_>, node: u32) -> Scene {
    let mut scene = Scene::default();
    let unit = real(per_cpu(run.settings.resource));
    let first = run.frames.saturating_sub(DAY);
    run.play(
        node,
        &mut Measured::new(&run.settings),
        |node, allocatable, policy| {
            if let Some(frame) = node.now.checked_sub(first) {
                scene.take(real(long(frame)) / 12.0, node, allocatable, policy, unit);
            }
        },
    );
    scene
}

/// The margin on the predicted peak of a node in the closed loop, in percent, by day.
pub(super) fn margin(run: &Run<'_>, node: u32) -> Points {
    let mut points = Points::new();
    run.play(node, &mut Measured::new(&run.settings), |node, _, policy| {
        if node.now.is_multiple_of(12) {
            let percent = f64::from(policy.estimate().margin_ppm) / 10_000.0;
            points.push((real(long(node.now)) / 288.0, percent));
        }
    });
    points
}

/// Twenty pods that ask for 1.5 CPUs each and use 0.3 of them, 0.6 from noon to midnight of the day after the third, and less
/// again. Nobody else gets a place, so that all that moves is the ratio. By hour of that day and the two after it.
pub(super) fn step(settings: Settings) -> Scene {
    let noon = DISCARDED + DAY / 2;
    let frames = DISCARDED + 3 * DAY;
    let request = per_cpu(settings.resource) * 3 / 2;
    let usage = |frame: usize| {
        let is_high = (noon..noon + DAY / 2).contains(&frame);
        request * if is_high { 4 } else { 2 } / 10
    };
    let mut node = Node::new(settings.machine, 0.5, frames);
    for number in 0..20 {
        node.bind(Pod {
            uid: format!("pod-{number:02}"),
            request,
            limit: request,
            start: 0,
            usage: (0..frames).map(usage).collect(),
        });
    }
    let mut policy = Measured::new(&settings);
    let mut scene = Scene::default();
    for frame in 0..frames {
        node.begin(frame);
        let allocatable = policy.allocatable(&node);
        if let Some(shown) = frame.checked_sub(DISCARDED) {
            let unit = real(per_cpu(settings.resource));
            scene.take(real(long(shown)) / 12.0, &node, allocatable, &mut policy, unit);
        }
        policy.end_frame(&node);
    }
    scene
}

#[cfg(test)]
mod tests {
    use headroom_domain::{policy::Bounds, ratio::Cents, resource::Resource};

    use super::*;
    use crate::bench::estimator::source::Machine;

    #[test]
    fn a_step_of_load_lowers_the_ratio_in_the_next_frame_and_for_a_day() {
        let resource = Resource::Cpu;
        let settings = Settings {
            resource,
            machine: Machine::of(resource),
            bounds: Bounds {
                min: Cents(100),
                max: Cents(200),
            },
            theta_ppm: 900_000,
            is_calibrated: true,
            oracle_ppm: 1_000_000,
        };
        let scene = step(settings);
        let at = |hour: f64| scene.allocatable.iter().find(|point| point.0 >= hour).unwrap().1;
        assert!(at(11.9) > 40.0, "{}", at(11.9));
        assert!(
            (at(12.0) - at(11.9)).abs() < 1e-9,
            "the frame of the step is not over"
        );
        assert!(at(12.1) < at(11.9) - 5.0, "{} after {}", at(12.1), at(11.9));
        assert!((at(30.0) - at(12.1)).abs() < 1e-9, "a day is remembered");
        assert!(at(50.0) > at(47.9), "and no longer");
    }
}
