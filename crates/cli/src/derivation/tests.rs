//! Tests of the printed derivation: nodes that are latched, seen through procfs alone, braked, young or blind. They
//! cover reports of older agents, and check that the printed lines add up.

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

/// The same with another report.
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

/// What agents said before they told of calibration, publication and the parts of P0.
fn older(part: &mut ResourceHint) {
    (part.highs, part.calibration, part.progress) = (None, None, None);
}

#[test]
fn under_a_latch_no_slack_counts() {
    let node = with(AgentMode::Full, Resource::Cpu, latched);
    assert_snapshot!(printed(&node, Resource::Cpu), @r"
    C               32000m  physical capacity
    A               31500m  raw allocatable, the kubelet's own
    theta            90.0%  share that predicted use may reach
    T               28800m  safe use: the smaller of theta × C and A
    max H           10000m  highest peak of the history, 3h ago: without pods that left, with those that came
    P0              10000m  expected peak: max H
    M               103.1%  margin that the outcomes of earlier ratios call for
    m               100.0%  margin on the peak: M, at most 100.0%
    P               20000m  predicted peak: P0 × (1 + m), rounded up
    Rw              27090m  requests of the pods, each weighted by trust
    R               30000m  requests of all pods bound
    S                4390m  slack: T - P + Rw - A
    coverage        100.0%  share of the history that is valid: 288 of 288 frames
    S'                  0m  what counts of S: nothing, outcomes have latched amplification off
    wanted          31500m  A + S'
    bounds      1.00..2.00  of the policy: what is wanted lies within
    A*              31500m  wanted, within bounds: what is wanted
    target            1.00  A* / A, rounded down
    brake             none  of the agent; why, its reasons tell
    step              1.00  at the target: it falls at once and rises slowly
    published         1.00  the step
    confidence       90.3%  the smaller of coverage and Rw / R
    ");
}

#[test]
fn an_older_agent_tells_the_latch_by_its_reasons_alone() {
    let node = with(AgentMode::Full, Resource::Cpu, |cpu| {
        latched(cpu);
        older(cpu);
    });
    assert_snapshot!(printed(&node, Resource::Cpu), @r"
    C               32000m  physical capacity
    A               31500m  raw allocatable, the kubelet's own
    theta            90.0%  share that predicted use may reach
    T               28800m  safe use: the smaller of theta × C and A
    max H           10000m  highest peak of the history, 3h ago: without pods that left, with those that came
    P0              10000m  expected peak: max H
    m               100.0%  margin on the peak
    P               20000m  predicted peak: P0 × (1 + m), rounded up
    Rw              27090m  requests of the pods, each weighted by trust
    R               30000m  requests of all pods bound
    S                4390m  slack: T - P + Rw - A
    coverage        100.0%  share of the history that is valid: 288 of 288 frames
    S'                  0m  what counts of S: nothing, outcomes have latched amplification off
    wanted          31500m  A + S'
    bounds      1.00..2.00  of the policy: what is wanted lies within
    A*              31500m  wanted, within bounds: what is wanted
    target            1.00  A* / A, rounded down
    brake             none  of the agent; why, its reasons tell
    published         1.00  down at once, up slowly
    confidence       90.3%  the smaller of coverage and Rw / R
    ");
}

#[test]
fn procfs_alone_has_its_own_margin_and_ceiling() {
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
    assert_snapshot!(printed(&node, Resource::Cpu), @r"
    C               32000m  physical capacity
    A               31500m  raw allocatable, the kubelet's own
    theta            90.0%  share that predicted use may reach
    T               28800m  safe use: the smaller of theta × C and A
    max H           13900m  highest peak of the history, 3h ago: without pods that left, with those that came
    P0              13900m  expected peak: max H
    M                10.0%  margin that the outcomes of earlier ratios call for
    m                20.0%  margin on the peak: M, at most 100.0%, at least 20.0% on the word of procfs alone
    P               16680m  predicted peak: P0 × (1 + m), rounded up
    Rw              40000m  requests of the pods, each weighted by trust
    R               43000m  requests of all pods bound
    S               20620m  slack: T - P + Rw - A
    coverage        100.0%  share of the history that is valid: 288 of 288 frames
    S'              20620m  what counts of S: S × 288 / 288
    wanted          52120m  A + S'
    bounds      1.00..1.50  of the policy, and at most 1.50 on the word of procfs alone: the highest is less than what is wanted
    A*              47250m  wanted, within bounds: A × 1.50, rounded down
    target            1.50  A* / A, rounded down
    brake             none  of the agent; why, its reasons tell
    step              1.40  rises by at most 0.05 a frame when 3 in a row want 0.02 more: 5 so far
    published         1.40  the step
    confidence       93.0%  the smaller of coverage and Rw / R
    ");
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
fn memory_is_expected_to_climb_and_a_brake_keeps_its_ratio_down() {
    let node = with(AgentMode::Full, Resource::Memory, braked);
    assert_snapshot!(printed(&node, Resource::Memory), @r"
    C           134861553664B (125.6GiB)  physical capacity
    A           126701535232B (118.0GiB)  raw allocatable, the kubelet's own
    theta                          90.0%  share that predicted use may reach
    T           114031381708B (106.2GiB)  safe use: theta × A
    max H         75161927680B (70.0GiB)  highest peak of the history, 0s ago: without pods that left, with those that came
    H[t-1]        70866960384B (66.0GiB)  the last peak, likewise
    G             10737418240B (10.0GiB)  worst climb of these peaks within 30m
    P0            81604378624B (76.0GiB)  expected peak: the larger of max H and H[t-1] + G
    M                              10.0%  margin that the outcomes of earlier ratios call for
    m                              10.0%  margin on the peak: M, at most 100.0%
    P             89764816487B (83.6GiB)  predicted peak: P0 × (1 + m), rounded up
    Rw          109521666048B (102.0GiB)  requests of the pods, each weighted by trust
    R           111669149696B (104.0GiB)  requests of all pods bound
    S               7086696037B (6.6GiB)  slack: T - P + Rw - A
    coverage                      100.0%  share of the history that is valid: 288 of 288 frames
    S'              7086696037B (6.6GiB)  what counts of S: S × 288 / 288
    wanted      133788231269B (124.6GiB)  A + S'
    bounds                    1.00..1.25  of the policy: what is wanted lies within
    A*          133788231269B (124.6GiB)  wanted, within bounds: what is wanted
    target                          1.05  A* / A, rounded down
    brake                        L3 stop  of the agent; why, its reasons tell
    step                            1.00  at most 1.00 under this brake, and it does not rise
    published                       1.00  the step
    confidence                     98.0%  the smaller of coverage and Rw / R
    ");
}

#[test]
fn an_older_agent_says_only_when_memory_was_highest() {
    let node = with(AgentMode::Full, Resource::Memory, |memory| {
        braked(memory);
        older(memory);
    });
    assert_snapshot!(printed(&node, Resource::Memory), @r"
    C           134861553664B (125.6GiB)  physical capacity
    A           126701535232B (118.0GiB)  raw allocatable, the kubelet's own
    theta                          90.0%  share that predicted use may reach
    T           114031381708B (106.2GiB)  safe use: theta × A
    max H                         0s ago  when the highest peak of the history was
    P0            81604378624B (76.0GiB)  expected peak: the highest one, or the last one and the worst climb if that is more
    m                              10.0%  margin on the peak
    P             89764816487B (83.6GiB)  predicted peak: P0 × (1 + m), rounded up
    Rw          109521666048B (102.0GiB)  requests of the pods, each weighted by trust
    R           111669149696B (104.0GiB)  requests of all pods bound
    S               7086696037B (6.6GiB)  slack: T - P + Rw - A
    coverage                      100.0%  share of the history that is valid: 288 of 288 frames
    S'              7086696037B (6.6GiB)  what counts of S: S × 288 / 288
    wanted      133788231269B (124.6GiB)  A + S'
    bounds                    1.00..1.25  of the policy: what is wanted lies within
    A*          133788231269B (124.6GiB)  wanted, within bounds: what is wanted
    target                          1.05  A* / A, rounded down
    brake                        L3 stop  of the agent; why, its reasons tell
    published                       1.00  held below the target by the brake
    confidence                     98.0%  the smaller of coverage and Rw / R
    ");
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
    assert_snapshot!(printed(&node, Resource::Cpu), @r"
    C               32000m  physical capacity
    A               31500m  raw allocatable, the kubelet's own
    theta            90.0%  share that predicted use may reach
    T               28800m  safe use: the smaller of theta × C and A
    max H           13900m  highest peak of the history, 3h ago: without pods that left, with those that came
    P0              13900m  expected peak: max H
    M                10.0%  margin that the outcomes of earlier ratios call for
    m                10.0%  margin on the peak: M, at most 100.0%
    P               15290m  predicted peak: P0 × (1 + m), rounded up
    Rw              27090m  requests of the pods, each weighted by trust
    R               30000m  requests of all pods bound
    S                9100m  slack: T - P + Rw - A
    coverage         34.7%  share of the history that is valid: 100 of 288 frames
    S'               3159m  what counts of S: S × 100 / 288
    wanted          34659m  A + S'
    bounds      1.00..2.00  of the policy: what is wanted lies within
    A*              34659m  wanted, within bounds: what is wanted
    target            1.10  A* / A, rounded down
    brake             none  of the agent; why, its reasons tell
    step              1.05  rises by at most 0.05 a frame when 3 in a row want 0.02 more: 1 so far
    published         1.05  the step
    confidence       34.7%  the smaller of coverage and Rw / R
    ");
}

#[test]
fn nothing_is_derived_for_a_blind_agent_and_what_is_bound_still_counts() {
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
    assert_snapshot!(printed(&node, Resource::Cpu), @r"
    C           32000m  physical capacity
    A           31500m  raw allocatable, the kubelet's own
    target        1.00  the agent is blind, for the reason below: it is 1.00
    brake         none  of the agent; why, its reasons tell
    published     1.00  the agent asks for nothing; the webhook covers admitted pods
    confidence    0.0%  the smaller of coverage and Rw / R
    ");
}

#[test]
fn numbers_that_do_not_lead_to_the_reported_target_say_so() {
    let mut node = node();
    node.policy.as_mut().unwrap().policy.bounds.cpu.max = Cents(120);
    let text = printed(&node, Resource::Cpu);
    let told = "of the report; these numbers come to 1.20: A or the policy changed after it";
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_share_leads_back_to_its_frames() {
    for timing in Profile::ALL.map(Profile::timing) {
        for frames in 0..=timing.ring_frames {
            let share = u64::from(frames) * 1_000_000 / u64::from(timing.ring_frames);
            assert_eq!(valid_frames(u32::try_from(share).unwrap(), &timing), frames);
        }
    }
}

/// Frames that an estimator has seen, whether kernel programs count, and every how many frames demand exceeds capacity.
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

/// An estimator of a node with one large pod, in which memory climbs.
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

/// Whatever state the estimator is in, what its report says leads a reader to its target, term by term.
#[test]
fn the_lines_add_up() {
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
                assert!(!text.contains("these numbers come to"), "{text}");
            }
        }
    }
}

#[test]
fn the_pasts_are_what_they_are_called() {
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
