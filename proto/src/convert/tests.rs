//! Tests of the conversions: round trips, and rejection of every invalid field by name.

use headroom_domain::{
    estimate::Profile,
    hint::{
        AgentMode, Beginning, Calibration, FrameUse, Highs, NodeHint, Past, PodFrameUse, PodTrust, Progress,
        ResourceHint, Signal,
    },
    policy::{AnnotationEffect, Floor, InForce, Mode, Policy, Source},
    ratio::Cents,
    resource::PerResource,
    workload::Workload,
};
use proptest::prelude::*;

use super::*;

fn hint() -> NodeHint {
    NodeHint {
        node: "n1".to_owned(),
        node_uid: "u1".to_owned(),
        boot_id: "b1".to_owned(),
        seq: 9,
        is_primary: true,
        pods_generation: 4,
        sight: AgentMode::FullShed,
        timing: Profile::Demo,
        is_draining: false,
        resources: PerResource {
            cpu: ResourceHint {
                capacity: 2000,
                published: Cents(128),
                ..ResourceHint::default()
            },
            memory: ResourceHint {
                capacity: 1 << 34,
                published: Cents(100),
                highs: Some(Highs {
                    highest: 1 << 33,
                    last: 1 << 32,
                    climb: 1 << 20,
                }),
                progress: Some(Progress {
                    stepped: Cents(95),
                    agreeing_frames: 2,
                }),
                calibration: Some(Calibration {
                    accumulator_ppm: 1_031_000,
                    is_latched: true,
                }),
                ..ResourceHint::default()
            },
        },
        trust: vec![PodTrust {
            uid: "p1".to_owned(),
            cpu_ppm: 500_000,
            memory_ppm: 1,
            exclusive_cpus_milli: 0,
        }],
        steal_ppm: 17,
        signals: vec![Signal {
            name: "switches".to_owned(),
            unit: "per s".to_owned(),
            value: u64::MAX,
        }],
        frame_use: Some(FrameUse {
            frame: 5,
            pods: vec![PodFrameUse {
                uid: "p1".to_owned(),
                low: PerResource { cpu: 1, memory: 2 },
                high: PerResource { cpu: 3, memory: 4 },
            }],
        }),
        past: Some(Past {
            age_s: 16,
            beginning: Some(Beginning::NothingSaved),
        }),
    }
}

/// Field for which a changed report is rejected.
fn refused(change: impl FnOnce(&mut wire::HintReport)) -> String {
    let mut report = wire::HintReport::from(&hint());
    change(&mut report);
    NodeHint::try_from(report)
        .expect_err("the report must be refused")
        .field
}

#[test]
fn a_report_round_trips() {
    assert_eq!(NodeHint::try_from(wire::HintReport::from(&hint())), Ok(hint()));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line or two for each field")]
fn an_invalid_report_is_rejected_by_field() {
    assert_eq!(refused(|report| report.node.clear()), "node");
    assert_eq!(refused(|report| report.node = "a b".to_owned()), "node");
    assert_eq!(refused(|report| report.node = "x".repeat(254)), "node");
    assert_eq!(refused(|report| report.node_uid.clear()), "node_uid");
    assert_eq!(refused(|report| report.boot_id.clear()), "boot_id");
    assert_eq!(refused(|report| report.mode = 0), "mode");
    assert_eq!(refused(|report| report.mode = 99), "mode");
    assert_eq!(refused(|report| report.timing = 0), "timing");
    assert_eq!(refused(|report| report.resources.clear()), "resources");
    assert_eq!(
        refused(|report| report.resources[1].name = "cpu".to_owned()),
        "resources"
    );
    assert_eq!(
        refused(|report| report.resources[1].name = "gpu".to_owned()),
        "resources.name"
    );
    assert_eq!(
        refused(|report| report.resources[0].capacity = u64::MAX),
        "resources.cpu.capacity"
    );
    assert_eq!(
        refused(|report| report.resources[0].published_cents = 10_001),
        "resources.cpu.published_cents"
    );
    assert_eq!(
        refused(|report| report.resources[1].brake = 4),
        "resources.memory.brake"
    );
    assert_eq!(
        refused(|report| report.resources[1].coverage_ppm = 1_000_001),
        "resources.memory.coverage_ppm"
    );
    assert_eq!(
        refused(|report| report.resources[1].highs.as_mut().unwrap().climb = u64::MAX),
        "resources.memory.highs.climb"
    );
    assert_eq!(
        refused(|report| report.resources[1].progress.as_mut().unwrap().stepped_cents = 10_001),
        "resources.memory.progress.stepped_cents"
    );
    assert_eq!(
        refused(|report| report.resources[1].calibration.as_mut().unwrap().accumulator_ppm = 2_226_000),
        "resources.memory.calibration.accumulator_ppm"
    );
    assert_eq!(
        refused(|report| report.resources[0].reasons = vec!["two words".to_owned()]),
        "resources.cpu.reasons"
    );
    assert_eq!(
        refused(|report| report.trust[0].cpu_ppm = 1_000_001),
        "trust.cpu_ppm"
    );
    assert_eq!(refused(|report| report.steal_ppm = 2_000_000), "steal_ppm");
    assert_eq!(
        refused(|report| report.signals[0].name = "two words".to_owned()),
        "signals.name"
    );
    assert_eq!(
        refused(|report| report.signals[0].unit = "\n".to_owned()),
        "signals.unit"
    );
    assert_eq!(
        refused(|report| report.signals = vec![report.signals[0].clone(); 257]),
        "signals"
    );
}

fn pods() -> wire::Pods {
    wire::Pods {
        generation: 3,
        node_uid: "u1".to_owned(),
        capacity: Some(wire::Amounts {
            cpu_milli: 2000,
            memory_bytes: 1 << 34,
        }),
        raw_allocatable: Some(wire::Amounts {
            cpu_milli: 1900,
            memory_bytes: 1 << 33,
        }),
        pods: vec![wire::PodRequest {
            uid: "p1".to_owned(),
            cpu_milli: 300,
            memory_bytes: 5,
            qos: wire::Qos::Burstable.into(),
            deleting: true,
            controller: 7,
            version: 8,
        }],
        memory_pressure: true,
        admitted: Some(wire::Amounts {
            cpu_milli: 250,
            memory_bytes: 4,
        }),
    }
}

#[test]
fn a_directive_becomes_a_view() {
    let NodeView {
        node_uid,
        view,
        has_memory_pressure,
    } = pods().try_into().unwrap();
    assert_eq!(
        (node_uid.as_str(), view.generation, view.raw.cpu),
        ("u1", 3, 1900)
    );
    assert!(view.pods["p1"].is_deleting && has_memory_pressure);
    let workload = Workload {
        controller: 7,
        version: 8,
    };
    assert_eq!(view.pods["p1"].workload, Some(workload));
    let mut older = pods();
    older.pods[0].controller = 0;
    let older: NodeView = older.try_into().unwrap();
    assert_eq!(older.view.pods["p1"].workload, None);
}

#[test]
fn an_invalid_directive_is_rejected_by_field() {
    let refused = |change: &dyn Fn(&mut wire::Pods)| {
        let mut message = pods();
        change(&mut message);
        NodeView::try_from(message)
            .expect_err("the directive must be refused")
            .field
    };
    assert_eq!(refused(&|pods| pods.capacity = None), "capacity");
    assert_eq!(
        refused(&|pods| pods.raw_allocatable.as_mut().unwrap().cpu_milli = 0),
        "raw_allocatable.cpu"
    );
    assert_eq!(refused(&|pods| pods.pods[0].cpu_milli = u64::MAX), "pods.cpu");
    assert_eq!(refused(&|pods| pods.pods[0].uid.clear()), "pods.uid");
}

#[test]
fn a_policy_round_trips() {
    let policy = Policy::default();
    let (bounds, target_ppm) =
        agent_policy(&wire::Policy::from_domain(&policy, &[Profile::Production])).unwrap();
    assert_eq!((bounds, target_ppm), (policy.bounds, policy.target_ppm));
    let mut message = wire::Policy::from_domain(&policy, &[]);
    message.cpu.as_mut().unwrap().max_cents = 99;
    assert_eq!(agent_policy(&message).unwrap_err().field, "cpu");
}

fn in_force(mode_from: Source, entry: Option<&str>) -> InForce {
    InForce {
        policy: Policy {
            mode: Mode::Guard,
            floor: Floor::None,
            annotations: AnnotationEffect::Lower,
            ..Policy::default()
        },
        mode_from,
        entry: entry.map(str::to_owned),
    }
}

#[test]
fn the_policy_in_force_round_trips() {
    for in_force in [
        in_force(Source::Default, None),
        in_force(Source::Entry, Some("batch")),
    ] {
        assert_eq!(
            InForce::try_from(wire::PolicyInForce::from_domain(&in_force, &[])),
            Ok(in_force)
        );
    }
}

#[test]
fn an_invalid_policy_in_force_is_rejected_by_field() {
    let refused = |change: fn(&mut wire::PolicyInForce)| {
        let mut message = wire::PolicyInForce::from_domain(&in_force(Source::File, None), &[]);
        change(&mut message);
        InForce::try_from(message).unwrap_err().field
    };
    assert_eq!(refused(|message| message.policy = None), "policy");
    assert_eq!(
        refused(|message| message.static_max_cpu_cents = 99),
        "static_max_cpu_cents"
    );
    assert_eq!(refused(|message| message.mode_from.clear()), "mode_from");
    assert_eq!(
        refused(|message| message.policy.as_mut().unwrap().mode = 0),
        "mode"
    );
    assert_eq!(
        refused(|message| message.policy.as_mut().unwrap().floor = 0),
        "floor"
    );
}

proptest! {
    #[test]
    fn any_bytes_convert_or_are_rejected(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(report) = <wire::HintReport as prost::Message>::decode(bytes.as_slice())
            && let Ok(hint) = NodeHint::try_from(report)
        {
            prop_assert!(hint.resources.cpu.published.0 <= 10_000);
        }
    }
}
