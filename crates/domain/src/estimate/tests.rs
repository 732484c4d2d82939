//! Tests of whole estimators: their results, and the inputs that change them. Worked examples are in
//! `tests/vectors.rs`, invariants in `tests/invariants.rs`.

use super::*;

const BOUNDS: Bounds = Bounds {
    min: Cents(100),
    max: Cents(200),
};

/// Margin m of the worked examples, in ppm.
const EXAMPLE_PPM: u32 = 100_000;

fn cpu(peak: u64, warm_requests: u64, bound: u64) -> Slack {
    slack(&Inputs {
        resource: Resource::Cpu,
        capacity: 32_000,
        raw: 31_500,
        target_ppm: 900_000,
        peak,
        margin_ppm: EXAMPLE_PPM,
        warm_requests,
        bound,
    })
}

#[test]
fn a_large_reservation_gives_an_empty_node_nothing() {
    let slack = slack(&Inputs {
        resource: Resource::Cpu,
        capacity: 32_000,
        raw: 27_000,
        target_ppm: 900_000,
        peak: 1000,
        margin_ppm: EXAMPLE_PPM,
        warm_requests: 0,
        bound: 0,
    });
    assert_eq!(
        (slack.safe, target(&slack, 288, 288, BOUNDS, false).cents),
        (27_000, Cents::ONE)
    );
}

#[test]
fn an_incomplete_history_is_a_reason() {
    let slack = cpu(1000, 20_000, 20_000);
    let reasons = |valid_frames| target(&slack, valid_frames, 288, BOUNDS, false).reasons;
    assert_eq!(reasons(288), [Reason::Slack]);
    assert_eq!(reasons(287), [Reason::Slack, Reason::Coverage]);
}

fn view(requests: &[(&str, u64, bool)]) -> View {
    let pod = |&(uid, cpu, is_deleting): &(&str, u64, bool)| {
        (
            uid.to_owned(),
            PodRequest {
                requests: PerResource { cpu, memory: 0 },
                is_deleting,
                ..PodRequest::default()
            },
        )
    };
    View {
        generation: 1,
        capacity: PerResource {
            cpu: 32_000,
            memory: 1 << 37,
        },
        raw: PerResource {
            cpu: 31_500,
            memory: 1 << 37,
        },
        pods: requests.iter().map(pod).collect(),
        bounds: PerResource {
            cpu: BOUNDS,
            memory: Bounds::OFF,
        },
        target_ppm: PerResource {
            cpu: 900_000,
            memory: 900_000,
        },
        admitted: PerResource::default(),
    }
}

/// A node in the state of worked example 1: 26 000 mc old, of which 4 000 are pod `d`, 3 000 at ten hours, 1 000 at
/// one.
fn example_one(is_deleting: bool) -> Estimator {
    let mut estimator = Estimator::new(Profile::Production.timing());
    let pods = [
        ("a", 22_000, false),
        ("b", 3000, false),
        ("c", 1000, false),
        ("d", 4000, false),
    ];
    estimator.set_view(view(&pods));
    let used = PodUse::default();
    for index in 0..=400 {
        let mut frame = Frame {
            index,
            is_valid: true,
            ..Frame::default()
        };
        frame.peak.cpu = 13_900;
        for (uid, born) in [("a", 0), ("d", 0), ("b", 281), ("c", 389)] {
            if index >= born {
                frame.pods.insert(uid.to_owned(), used);
            }
        }
        estimator.end_frame(&frame);
    }
    if is_deleting {
        estimator.set_view(view(&[
            ("a", 22_000, false),
            ("b", 3000, false),
            ("c", 1000, false),
            ("d", 4000, true),
        ]));
    }
    estimator
}

#[test]
fn the_whole_estimator_reaches_example_one() {
    let cpu = example_one(false).estimates().cpu;
    assert_eq!(
        (cpu.slack.predicted_peak, cpu.slack.warm_requests, cpu.slack.bound),
        (14_595, 27_090, 30_000)
    );
    assert_eq!(
        (cpu.target, cpu.published, cpu.coverage_ppm),
        (Cents(131), Cents(130), 1_000_000)
    );
    assert_eq!((cpu.capacity, cpu.raw), (32_000, 31_500));
}

#[test]
fn an_announced_deletion_lowers_at_once() {
    let cpu = example_one(true).estimates().cpu;
    assert_eq!(
        (cpu.target, cpu.published, cpu.slack.bound),
        (Cents(118), Cents(118), 30_000)
    );
}

#[test]
fn without_a_view_nothing_is_amplified() {
    let mut estimator = example_one(false);
    estimator.clear_view();
    let cpu = estimator.estimates().cpu;
    assert_eq!(
        (cpu.published, cpu.reasons),
        (Cents::ONE, vec![Reason::NoDirective])
    );
}

#[test]
fn procfs_alone_gives_a_larger_margin_and_a_lower_ceiling() {
    let mut estimator = Estimator::new(Profile::Demo.timing());
    estimator.set_visibility(Visibility::PROCFS);
    estimator.set_view(view(&[("a", 60_000, false)]));
    for index in 0..60 {
        let frame = Frame {
            index,
            is_valid: true,
            peak: PerResource { cpu: 1000, memory: 0 },
            pods: [("a".to_owned(), PodUse::default())].into(),
            ..Frame::default()
        };
        estimator.end_frame(&frame);
    }
    let cpu = estimator.estimates().cpu;
    assert_eq!((cpu.slack.predicted_peak, cpu.target), (1200, HIGHEST_PROC));
}

/// Frames of a constantly amplified node whose demand exceeds its limit once a day.
fn overrun(estimator: &mut Estimator, frames: std::ops::Range<u64>) {
    for index in frames {
        let mut frame = Frame {
            index,
            is_valid: true,
            pods: [("a".to_owned(), PodUse::default())].into(),
            ..Frame::default()
        };
        frame.peak.cpu = if index % 288 == 0 { 32_001 } else { 1000 };
        estimator.end_frame(&frame);
    }
}

/// A node whose pods hold more than raw allocatable and whose minimum is above 1.00, so amplification is in use for
/// any measurement.
fn always_amplified() -> Estimator {
    let mut estimator = Estimator::new(Profile::Production.timing());
    let mut view = view(&[("a", 90_000, false)]);
    view.bounds.cpu.min = Cents(105);
    estimator.set_view(view);
    estimator
}

#[test]
fn outcomes_move_the_margin_until_it_latches_and_is_released() {
    let mut estimator = always_amplified();
    // Each decision has an incident in the following day: there are no good outcomes, and one bad outcome per day.
    overrun(&mut estimator, 0..19 * 288 + 1);
    let cpu = estimator.estimates().cpu;
    assert_eq!(
        (cpu.margin_ppm, cpu.accumulator_ppm, cpu.is_latched),
        (981_000, 981_000, false)
    );
    overrun(&mut estimator, 19 * 288 + 1..20 * 288 + 1);
    let cpu = estimator.estimates().cpu;
    assert_eq!((cpu.accumulator_ppm, cpu.is_latched), (1_030_000, true));
    assert_eq!(
        (cpu.margin_ppm, cpu.target, cpu.reasons[0]),
        (1_000_000, Cents(105), Reason::MarginLatched)
    );
    assert_eq!(
        estimator.estimates().memory.accumulator_ppm,
        MARGIN_PPM,
        "resources are independent"
    );
    estimator.reset_outcomes(true);
    let cpu = estimator.estimates().cpu;
    assert_eq!((cpu.margin_ppm, cpu.is_latched), (MARGIN_PPM, false));
}

#[test]
fn without_calibration_the_margin_stays() {
    let mut estimator = always_amplified();
    estimator.reset_outcomes(false);
    overrun(&mut estimator, 0..2000);
    assert_eq!(estimator.estimates().cpu.accumulator_ppm, UNCALIBRATED_PPM);
}

#[test]
fn an_l3_brake_is_a_bad_outcome_for_its_resource() {
    let frame = |index| Frame {
        index,
        is_valid: true,
        ..Frame::default()
    };
    let begun = || {
        let mut estimator = always_amplified();
        (0..300).for_each(|index| estimator.end_frame(&frame(index)));
        estimator
    };
    let mut estimator = begun();
    let pressure = Pressure {
        visibility: Visibility::ALL,
        cpu: CpuPressure {
            sigma8_ppm: 400_000,
            runq_p99_us: 50_000,
            ..CpuPressure::default()
        },
        memory: MemoryPressure::default(),
    };
    for second in [10, 20] {
        estimator.end_brake_period(&pressure, Duration::from_secs(second));
    }
    let after_a_day = |estimator: &mut Estimator| {
        for index in 300..600 {
            estimator.end_frame(&frame(index));
        }
        estimator.estimates().cpu.accumulator_ppm
    };
    let mut stopped = begun();
    for second in [10, 20, 30] {
        stopped.end_brake_period(&pressure, Duration::from_secs(second));
    }
    assert_eq!(after_a_day(&mut estimator), MARGIN_PPM, "L2, twice");
    let (margin_ppm, is_latched) = (after_a_day(&mut stopped), stopped.estimates().cpu.is_latched);
    assert_eq!(
        (margin_ppm, is_latched),
        (99_000 - 1000, false),
        "twenty-four decisions were open"
    );
}

#[test]
fn procfs_alone_is_given_at_least_twice_the_margin() {
    let mut estimator = always_amplified();
    estimator.set_visibility(Visibility::PROCFS);
    assert_eq!(estimator.estimates().cpu.margin_ppm, 200_000);
    overrun(&mut estimator, 0..4 * 288 + 1);
    assert_eq!(estimator.estimates().cpu.margin_ppm, 246_000);
}

#[test]
fn after_a_lost_view_the_ratio_returns_in_small_steps() {
    let mut estimator = example_one(false);
    let known = estimator.view().unwrap().clone();
    estimator.clear_view();
    estimator.set_view(known);
    assert_eq!(estimator.estimates().cpu.published, Cents::ONE);
}

#[test]
fn a_duplicate_or_late_frame_changes_nothing() {
    let mut estimator = example_one(false);
    let before = (estimator.estimates(), estimator.trust());
    for index in [400, 399, 0] {
        let mut frame = Frame {
            index,
            is_valid: true,
            ..Frame::default()
        };
        frame.peak.cpu = 31_000;
        estimator.end_frame(&frame);
    }
    assert_eq!((estimator.estimates(), estimator.trust()), before);
}

#[test]
fn a_hint_can_be_derived_from_saturated_numbers() {
    let slack = slack(&Inputs {
        resource: Resource::Memory,
        capacity: u64::MAX,
        raw: u64::MAX,
        target_ppm: u32::MAX,
        peak: u64::MAX,
        margin_ppm: u32::MAX,
        warm_requests: u64::MAX,
        bound: u64::MAX,
    });
    assert!(target(&slack, 288, 288, BOUNDS, false).cents <= BOUNDS.max);
}

mod invariants;
mod known_workloads;
mod succession;
mod vectors;

/// A frame measured in part because of starvation: the measured part counts against the node and never in its favour.
#[test]
fn a_frame_measured_in_part_lowers_the_ratio_and_may_be_a_bad_outcome() {
    let after = |is_bound: bool, peak: u64| {
        let mut estimator = always_amplified();
        let valid = |index| Frame {
            index,
            is_valid: true,
            ..Frame::default()
        };
        (0..300).for_each(|index| estimator.end_frame(&valid(index)));
        let before = estimator.estimates().cpu;
        estimator.end_frame(&Frame {
            index: 300,
            is_bound,
            peak: PerResource { cpu: peak, memory: 0 },
            ..Frame::default()
        });
        let spoiled = estimator.estimates().cpu;
        (301..600).for_each(|index| estimator.end_frame(&valid(index)));
        let accumulator_ppm = estimator.estimates().cpu.accumulator_ppm;
        (
            spoiled.slack.peak > before.slack.peak,
            spoiled.coverage_ppm <= before.coverage_ppm,
            accumulator_ppm,
        )
    };
    assert_eq!(after(true, 33_000), (true, true, 99_000));
    assert_eq!(
        after(true, 31_000),
        (true, true, MARGIN_PPM),
        "the peak may have been lower"
    );
    assert_eq!(
        after(false, 33_000),
        (false, true, MARGIN_PPM),
        "no part of it counts"
    );
}
