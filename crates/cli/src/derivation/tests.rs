//! Tests of the printed derivation: latched, procfs-only, braked, young and blind agents, and reports of older agents. One test
//! checks that the printed terms lead to the target.

use headroom_domain::{
    estimate::{
        CpuPressure, Estimator, Frame, MARGIN_PROC_PPM, MemoryPressure, PodRequest, PodUse, Pressure,
        Profile, View, Visibility,
    },
    policy::{InForce, Mode, Source},
    resource::PerResource,
};
use insta::assert_snapshot;

use super::*;
use crate::output::tests::status;

const GIB: u64 = 1 << 30;

/// The first row of docs/estimator.md#a-worked-example, with bounds up to 2.00 and 1.25.
fn node() -> NodeView {
    let mut node = NodeView::try_from(status("worker-1")).unwrap();
    let mut policy = Policy {
        mode: Mode::Auto,
        ..Policy::default()
    };
    policy.bounds.memory.max = Cents(125);
    node.policy = Some(InForce {
        policy,
        mode_from: Source::File,
        entry: None,
    });
    node
}

/// The node with a changed report.
fn with(sight: AgentMode, resource: Resource, change: impl FnOnce(&mut ResourceHint)) -> NodeView {
    let mut node = node();
    let report = &mut node.hint.as_mut().unwrap().report;
    report.sight = sight;
    change(report.resources.get_mut(resource));
    node
}

fn printed(node: &NodeView, resource: Resource) -> String {
    Derivation::derive(node, resource).unwrap().to_string()
}

fn latched(cpu: &mut ResourceHint) {
    (cpu.peak, cpu.predicted_peak) = (10_000, 20_000);
    cpu.margin_ppm = 1_000_000;
    (cpu.target, cpu.published) = (Cents::ONE, Cents::ONE);
    cpu.reasons = vec!["margin-latched".to_owned()];
    cpu.highs = Some(Highs {
        highest: 10_000,
        last: 9000,
        climb: 0,
    });
    cpu.calibration = Some(Calibration {
        accumulator_ppm: 1_031_000,
        is_latched: true,
    });
    cpu.progress = Some(Progress {
        stepped: Cents::ONE,
        agreeing_frames: 0,
    });
}

/// Removes the fields that older agents do not report: calibration, progress and the parts of P0.
fn older(part: &mut ResourceHint) {
    (part.highs, part.calibration, part.progress) = (None, None, None);
}

#[test]
fn a_latch_sets_the_effective_slack_to_zero() {
    let node = with(AgentMode::Full, Resource::Cpu, latched);
    assert_snapshot!(printed(&node, Resource::Cpu));
}

#[test]
fn the_latch_of_an_older_agent_is_read_from_its_reasons() {
    let node = with(AgentMode::Full, Resource::Cpu, |cpu| {
        latched(cpu);
        older(cpu);
    });
    assert_snapshot!(printed(&node, Resource::Cpu));
}

#[test]
fn procfs_mode_has_its_own_margin_and_maximum() {
    let mut node = with(AgentMode::Proc, Resource::Cpu, |cpu| {
        (cpu.predicted_peak, cpu.margin_ppm) = (16_680, 200_000);
        cpu.warm_requests = 40_000;
        (cpu.target, cpu.published) = (Cents(150), Cents(140));
        cpu.progress = Some(Progress {
            stepped: Cents(140),
            agreeing_frames: 5,
        });
    });
    node.bound.as_mut().unwrap().cpu = 43_000;
    assert_snapshot!(printed(&node, Resource::Cpu));
}

fn braked(memory: &mut ResourceHint) {
    memory.highs = Some(Highs {
        highest: 70 * GIB,
        last: 66 * GIB,
        climb: 10 * GIB,
    });
    (memory.peak, memory.predicted_peak) = (76 * GIB, 76 * GIB * 11 / 10 + 1);
    memory.warm_requests = 102 * GIB;
    (memory.target, memory.published) = (Cents(105), Cents::ONE);
    memory.brake = Brake::Stop;
    memory.progress = Some(Progress {
        stepped: Cents::ONE,
        agreeing_frames: 0,
    });
}

#[test]
fn memory_peak_includes_the_climb_and_a_brake_holds_the_ratio() {
    let node = with(AgentMode::Full, Resource::Memory, braked);
    assert_snapshot!(printed(&node, Resource::Memory));
}

#[test]
fn an_older_agent_reports_only_the_age_of_the_memory_peak() {
    let node = with(AgentMode::Full, Resource::Memory, |memory| {
        braked(memory);
        older(memory);
    });
    assert_snapshot!(printed(&node, Resource::Memory));
}

#[test]
fn a_young_history_scales_slack_by_its_frames() {
    let node = with(AgentMode::Full, Resource::Cpu, |cpu| {
        cpu.coverage_ppm = 347_222;
        (cpu.target, cpu.published) = (Cents(110), Cents(105));
        cpu.progress = Some(Progress {
            stepped: Cents(105),
            agreeing_frames: 1,
        });
    });
    assert_snapshot!(printed(&node, Resource::Cpu));
}

#[test]
fn a_blind_agent_has_no_derivation_and_a_target_of_one() {
    let mut node = with(AgentMode::Blind, Resource::Cpu, |cpu| {
        *cpu = ResourceHint {
            capacity: 32_000,
            published: Cents::ONE,
            target: Cents::ONE,
            coverage_ppm: 1_000_000,
            reasons: vec!["capacity-mismatch".to_owned()],
            ..ResourceHint::default()
        };
    });
    node.bound.as_mut().unwrap().cpu = 40_000;
    assert_snapshot!(printed(&node, Resource::Cpu));
}

#[test]
fn a_target_that_differs_from_the_numbers_is_marked() {
    let mut node = node();
    node.policy.as_mut().unwrap().policy.bounds.cpu.max = Cents(120);
    let text = printed(&node, Resource::Cpu);
    assert!(text.contains("these numbers give 1.20"), "{text}");
}

#[test]
fn a_truncated_share_is_converted_back_to_frames() {
    for timing in Profile::ALL.map(Profile::timing) {
        for frames in 0..=timing.ring_frames {
            let share = u64::from(frames) * 1_000_000 / u64::from(timing.ring_frames);
            assert_eq!(valid_frames(u32::try_from(share).unwrap(), &timing), frames);
        }
    }
}

/// Frames of an estimator, true if kernel programs count, and the interval in frames at which demand exceeds capacity.
const YOUNG: (u64, bool, u64) = (150, true, u64::MAX);
const GROWN: (u64, bool, u64) = (400, true, u64::MAX);
const PROCFS: (u64, bool, u64) = (400, false, u64::MAX);
const LATCHED: (u64, bool, u64) = (6080, true, 288);
const LATCHED_ON_PROCFS: (u64, bool, u64) = (6080, false, 288);

const fn visible(sees_kernel: bool) -> Visibility {
    if sees_kernel {
        Visibility::ALL
    } else {
        Visibility::PROCFS
    }
}

/// An estimator of a node with one large pod, whose memory climbs.
fn estimator((frames, sees_kernel, overrun_every): (u64, bool, u64)) -> Estimator {
    let mut estimator = Estimator::new(Profile::Production.timing());
    estimator.set_visibility(visible(sees_kernel));
    let node = node();
    let requests = PerResource {
        cpu: 90_000,
        memory: 104 * GIB,
    };
    let pod = PodRequest {
        requests,
        ..PodRequest::default()
    };
    let policy = node.policy.unwrap().policy;
    estimator.set_view(View {
        generation: 1,
        capacity: PerResource {
            cpu: 32_000,
            memory: 125 * GIB,
        },
        raw: node.raw.unwrap(),
        pods: [("a".to_owned(), pod)].into(),
        bounds: policy.bounds,
        target_ppm: policy.target_ppm,
        admitted: PerResource::default(),
    });
    for index in 0..frames {
        let is_overrun = (index + 1) % overrun_every == 0;
        estimator.end_frame(&Frame {
            index,
            is_valid: index % 11 != 10,
            peak: PerResource {
                cpu: if is_overrun { 32_001 } else { 9000 + index % 7 },
                memory: (20 + index % 50) * GIB,
            },
            pods: [("a".to_owned(), PodUse::default())].into(),
            ..Frame::default()
        });
    }
    estimator
}

/// The node with the estimator's own report.
fn reported(estimator: &Estimator, sight: AgentMode) -> NodeView {
    let (mut node, estimates) = (node(), estimator.estimates());
    node.bound = Some(estimates.map(|_, estimate| estimate.slack.bound));
    let report = &mut node.hint.as_mut().unwrap().report;
    report.sight = sight;
    report.resources = estimates.map(|_, estimate| estimate.hint(0));
    node
}

/// In each state of the estimator, the terms of its report lead to its target.
#[test]
fn the_terms_lead_to_the_target() {
    let pressure = |sees_kernel| Pressure {
        visibility: visible(sees_kernel),
        cpu: CpuPressure {
            sigma8_ppm: 50_000,
            some_ppm: 100_000,
            busy_ppm: 850_000,
            ..CpuPressure::default()
        },
        memory: MemoryPressure::default(),
    };
    for past in [YOUNG, GROWN, PROCFS, LATCHED, LATCHED_ON_PROCFS] {
        let (mut estimator, sight) = (
            estimator(past),
            if past.1 { AgentMode::Full } else { AgentMode::Proc },
        );
        for is_braked in [false, true] {
            if is_braked {
                estimator.end_brake_period(&pressure(past.1), Duration::from_secs(10));
            }
            let (node, estimates) = (reported(&estimator, sight), estimator.estimates());
            for resource in Resource::ALL {
                let estimate = estimates.get(resource);
                let derivation = Derivation::derive(&node, resource).unwrap();
                let Highs { highest, last, climb } = derivation.highs.unwrap();
                assert_eq!(derivation.slack, estimate.slack, "{past:?}");
                assert_eq!(derivation.slack.peak, highest.max(last + climb), "{past:?}");
                assert_eq!(derivation.derived.cents, estimate.target, "{past:?}");
                assert_eq!(derivation.confidence_ppm, estimate.confidence_ppm, "{past:?}");
                let text = derivation.to_string();
                assert!(!text.contains("these numbers give"), "{text}");
            }
        }
    }
}

#[test]
fn the_test_histories_have_the_named_states() {
    let cpu = |past| estimator(past).estimates().cpu;
    let latched = cpu(LATCHED);
    assert!(latched.is_latched && latched.slack.slack > 0, "{latched:?}");
    let procfs = cpu(PROCFS);
    assert_eq!((procfs.margin_ppm, procfs.target), (MARGIN_PROC_PPM, Cents(150)));
    let young = cpu(YOUNG);
    assert!(
        young.coverage_ppm < 1_000_000 && young.slack.slack > 0,
        "{young:?}"
    );
}
