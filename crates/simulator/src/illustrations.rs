//! Curves for the plots of the report page: a node's day, the reaction to a step of load, the margin over time.

use headroom_domain::estimate::Estimate;

use super::{
    closed::Run,
    convert::{long, real},
    figures::DISCARDED,
    node::{Identity, Node, Pod},
    policy::{MeasuredSlack, Policy as _, Settings},
    source::{DAY, HOUR, per_cpu},
};

/// Pairs of time and value.
pub(super) type Points = Vec<(f64, f64)>;

/// One node under Headroom's policy, in CPUs (or multiples of 4 GiB), by hour or day.
#[derive(Debug, Clone, Default)]
pub(super) struct Scene {
    pub(super) demand: Points,
    pub(super) predicted: Points,
    /// P plus the requests that are not trusted yet.
    pub(super) charged: Points,
    pub(super) allocatable: Points,
    pub(super) bound: Points,
}

/// The margin M of one node as outcomes change it (`MarginCalibrator`), in percent, by day.
#[derive(Debug, Clone, Default)]
pub(super) struct Calibration {
    /// M without the limit up to which it is applied.
    pub(super) accumulated: Points,
    /// M at the times when amplification was switched off.
    pub(super) latched: Points,
    /// M at the times when amplification was switched on again.
    pub(super) released: Points,
}

impl Scene {
    fn record(&mut self, time: f64, node: &Node, allocatable: u64, policy: &mut MeasuredSlack, unit: f64) {
        let push = |points: &mut Points, value: u64| points.push((time, real(value) / unit));
        push(&mut self.demand, node.peak(node.now));
        push(&mut self.predicted, policy.estimate().slack.predicted_peak);
        push(&mut self.charged, policy.predicted_peak(node).unwrap_or_default());
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
        &mut MeasuredSlack::new(&run.settings),
        |node, allocatable, policy| {
            if let Some(frame) = node.now.checked_sub(first) {
                scene.record(real(long(frame)) / 12.0, node, allocatable, policy, unit);
            }
        },
    );
    scene
}

/// The margin of a node in the closed loop: M each hour, and each change of the latch.
pub(super) fn calibration(run: &Run<'_>, node: u32) -> Calibration {
    let mut seen = Calibration::default();
    let mut was_latched = false;
    run.play(node, &mut MeasuredSlack::new(&run.settings), |node, _, policy| {
        let Estimate {
            accumulator_ppm,
            is_latched,
            ..
        } = policy.estimate();
        let point = (
            real(long(node.now)) / real(long(DAY)),
            f64::from(accumulator_ppm) / 10_000.0,
        );
        match (was_latched, is_latched) {
            (false, true) => seen.latched.push(point),
            (true, false) => seen.released.push(point),
            (false, false) | (true, true) => {}
        }
        was_latched = is_latched;
        if node.now.is_multiple_of(HOUR) {
            seen.accumulated.push(point);
        }
    });
    seen
}

/// Twenty pods that request 1.5 CPUs each. They use 0.3 of it, and 0.6 from noon to midnight of the day after the
/// third. No other pod is placed, so that only the ratio changes. The result covers that day and the next two, by
/// hour.
pub(super) fn step(settings: Settings) -> Scene {
    let noon = DISCARDED + DAY / 2;
    let frames = DISCARDED + 3 * DAY;
    let request = per_cpu(settings.resource) * 3 / 2;
    let usage = |frame: usize| {
        let is_high = (noon..noon + DAY / 2).contains(&frame);
        request * if is_high { 4 } else { 2 } / 10
    };
    let mut node = Node::new(settings.machine, 0.5, frames, Identity::default());
    for number in 0..20 {
        node.bind(Pod {
            uid: format!("pod-{number:02}"),
            owner: None,
            request,
            limit: request,
            start: 0,
            usage: (0..frames).map(usage).collect(),
        });
    }
    let mut policy = MeasuredSlack::new(&settings);
    let mut scene = Scene::default();
    for frame in 0..frames {
        node.begin(frame);
        let allocatable = policy.allocatable(&node);
        if let Some(shown) = frame.checked_sub(DISCARDED) {
            let unit = real(per_cpu(settings.resource));
            scene.record(real(long(shown)) / 12.0, &node, allocatable, &mut policy, unit);
        }
        policy.end_frame(&node);
    }
    scene
}

#[cfg(test)]
mod tests {
    use headroom_domain::{policy::Bounds, ratio::Cents, resource::Resource};

    use super::*;
    use crate::source::{Machine, Source, Workload};

    fn settings() -> Settings {
        let resource = Resource::Cpu;
        Settings {
            resource,
            machine: Machine::for_resource(resource),
            bounds: Bounds {
                min: Cents(100),
                max: Cents(200),
            },
            theta_ppm: 900_000,
            is_calibrated: true,
            has_brakes: true,
            oracle_ppm: 1_000_000,
        }
    }

    /// Pods that request five CPUs and use almost nothing for two days; then, every three hours, all of them use more
    /// than that for one frame.
    struct Relapse;

    impl Source for Relapse {
        fn seed(&self) -> u64 {
            0
        }

        fn request(&self, _node: u32, _number: u32) -> u64 {
            5000
        }

        fn workload(&self, _node: u32, _number: u32, start: usize) -> Workload {
            let usage = |frame: usize| {
                let since = frame.checked_sub(46 * HOUR);
                if since.is_some_and(|since| since.is_multiple_of(3 * HOUR)) {
                    6000
                } else {
                    100
                }
            };
            Workload {
                limit: 6000,
                usage: (start..8 * DAY).map(usage).collect(),
            }
        }
    }

    #[test]
    fn the_margin_curve_exceeds_its_applied_limit_and_contains_latch_changes() {
        let run = Run {
            source: &Relapse,
            nodes: 1,
            frames: 8 * DAY,
            cv: 0.0,
            settings: settings(),
        };
        let Calibration {
            accumulated,
            latched,
            released,
        } = calibration(&run, 0);
        assert_eq!(accumulated.first(), Some(&(0.0, 5.0)));
        let most = accumulated.iter().map(|point| point.1).fold(0.0, f64::max);
        assert!(most > 100.0, "{most}");
        assert_eq!(
            (latched.len(), released.len()),
            (1, 0),
            "{latched:?} {released:?}"
        );
        assert!(latched[0].1 >= 100.0, "{latched:?}");
        let before = accumulated.iter().filter(|point| point.0 < latched[0].0);
        assert!(before.map(|point| point.1).fold(0.0, f64::max) < 100.0);
    }

    #[test]
    fn the_scene_contains_the_peak_and_untrusted_requests() {
        let scene = step(settings());
        assert_eq!(scene.predicted.len(), scene.charged.len());
        let pairs = scene.predicted.iter().zip(&scene.charged);
        assert!(pairs.clone().all(|(peak, charged)| peak.1 <= charged.1));
        // 1.05 × (0.8 + 20 × 0.6 + 1.165 × 0.6 × sqrt(20)) CPUs after the step.
        let after = scene.predicted.iter().find(|point| point.0 >= 13.0).unwrap().1;
        assert!((after - 16.722).abs() < 0.01, "{after}");
    }

    #[test]
    fn a_step_of_load_lowers_the_ratio_in_the_next_frame_and_for_a_day() {
        let scene = step(settings());
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
