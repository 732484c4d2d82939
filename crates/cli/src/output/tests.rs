//! Tests of the tables, pages and JSON for the worked example of docs/estimator.md.

use headroom_domain::{
    policy::{InForce, Mode, Policy, Source},
    resource::Resource,
};
use headroom_proto::v1alpha1 as wire;
use insta::assert_snapshot;

use super::*;
use crate::{styled_text::StyledText, view::NodeView};

/// The worked example: 32 cores, 31.5 of them allocatable, 30 bound, a peak use of 13.9.
pub(crate) fn status(name: &str) -> wire::NodeStatus {
    let amounts = |cpu_milli: u64, gib: u64| {
        Some(wire::Amounts {
            cpu_milli,
            memory_bytes: gib << 30,
        })
    };
    wire::NodeStatus {
        name: name.to_owned(),
        uid: "u1".to_owned(),
        policy: Some(wire::PolicyInForce::from_domain(&in_force(), &[])),
        policy_refused: String::new(),
        floor_trouble: String::new(),
        hint: Some(report(name)),
        hint_age_ms: 3000,
        hint_standing: "fresh".to_owned(),
        raw: amounts(31_500, 118),
        allocatable: amounts(40_320, 118),
        bound: amounts(30_000, 104),
        pods: 31,
        rules_cpu: rules(31_500, 128, 40_320, 30_000, &["hint"]),
        would_be: None,
        places: Vec::new(),
        rules_memory: rules(118 << 30, 100, 118 << 30, 104 << 30, &["hint", "clamped-max"]),
    }
}

fn rules(raw: u64, cents: u32, product: u64, bound: u64, why: &[&str]) -> Vec<wire::Rule> {
    let rule = |name: &str, term, why: &[&str]| wire::Rule {
        name: name.to_owned(),
        term: Some(term),
        why: why.iter().map(|&code| code.to_owned()).collect(),
    };
    let ratio = wire::rule::Term::RatioNano(u64::from(cents) * 10_000_000);
    vec![
        rule("baseline", wire::rule::Term::Amount(raw), &[]),
        rule("ratio", ratio, why),
        rule("product", wire::rule::Term::Amount(product), &[]),
        rule("admitted", wire::rule::Term::Amount(bound), &[]),
        rule("fit", wire::rule::Term::Amount(bound), &[]),
        rule("cap", wire::rule::Term::Amount(2 * raw), &[]),
        rule("result", wire::rule::Term::Amount(product), &[]),
    ]
}

pub(crate) fn in_force() -> InForce {
    InForce {
        policy: Policy {
            mode: Mode::Auto,
            ..Policy::default()
        },
        mode_from: Source::Entry,
        entry: Some("batch".to_owned()),
    }
}

const CALIBRATION: wire::Calibration = wire::Calibration {
    accumulator_ppm: 100_000,
    latched: false,
};

const fn progress(stepped_cents: u32) -> wire::Progress {
    wire::Progress {
        stepped_cents,
        agreeing_frames: 0,
    }
}

fn cpu() -> wire::Resource {
    wire::Resource {
        name: "cpu".to_owned(),
        capacity: 32_000,
        isolated: 0,
        usage: 11_240,
        peak_p0: 13_900,
        predicted_peak: 15_290,
        warm_requests: 27_090,
        published_cents: 128,
        target_cents: 128,
        coverage_ppm: 1_000_000,
        margin_ppm: 100_000,
        brake: 0,
        reasons: vec!["slack".to_owned()],
        peak_age_frames: 36,
        highs: Some(wire::Highs {
            highest: 13_900,
            last: 12_000,
            climb: 0,
        }),
        calibration: Some(CALIBRATION),
        progress: Some(progress(128)),
    }
}

fn memory() -> wire::Resource {
    wire::Resource {
        name: "memory".to_owned(),
        capacity: 128_614 << 20,
        isolated: 0,
        usage: 66_000 << 20,
        peak_p0: 73_728 << 20,
        predicted_peak: (73_728_u64 << 20) * 11 / 10 + 1,
        warm_requests: 96 << 30,
        published_cents: 100,
        target_cents: 100,
        coverage_ppm: 1_000_000,
        margin_ppm: 100_000,
        brake: 2,
        reasons: vec!["direct-reclaim".to_owned(), "clamped-max".to_owned()],
        peak_age_frames: 0,
        highs: Some(wire::Highs {
            highest: 73_728 << 20,
            last: 73_728 << 20,
            climb: 0,
        }),
        calibration: Some(CALIBRATION),
        progress: Some(progress(100)),
    }
}

fn report(node: &str) -> wire::HintReport {
    wire::HintReport {
        node: node.to_owned(),
        node_uid: "u1".to_owned(),
        boot_id: "b1".to_owned(),
        seq: 7,
        primary: true,
        pods_generation: 4711,
        mode: wire::Mode::Full.into(),
        timing: wire::Timing::Production.into(),
        draining: false,
        frame_use: None,
        resources: vec![cpu(), memory()],
        trust: vec![wire::Trust {
            pod_uid: "p1".into(),
            cpu_ppm: 1_000_000,
            memory_ppm: 500_000,
            exclusive_cpus_milli: 0,
        }],
        steal_ppm: 0,
        signals: [
            ("sigma8", "ppm", 12_000),
            ("run-queue-p99", "us", 850),
            ("refaults", "MB/s", 120),
            ("memory-spare", "bytes", 6 << 30),
        ]
        .map(|(name, unit, value)| wire::Signal {
            name: name.to_owned(),
            unit: unit.to_owned(),
            value,
        })
        .to_vec(),
        past: Some(wire::Past {
            age_s: 12_345,
            beginning: "nothing-saved".to_owned(),
        }),
    }
}

fn node(status: wire::NodeStatus) -> NodeView {
    status.try_into().unwrap()
}

/// A node without a report, and one whose agent is in procfs mode with demo timing and is late.
pub(crate) fn others() -> [NodeView; 2] {
    let silent = wire::NodeStatus {
        hint: None,
        hint_standing: String::new(),
        raw: None,
        policy: None,
        policy_refused: "version 12: mode: unknown variant `Auto`".to_owned(),
        ..status("silent")
    };
    let mut late = status("worker-2");
    let hint = late.hint.as_mut().unwrap();
    hint.mode = wire::Mode::Proc.into();
    hint.timing = wire::Timing::Demo.into();
    late.hint_standing = "hold".to_owned();
    late.hint_age_ms = 75_000;
    late.bound = Some(wire::Amounts {
        cpu_milli: 40_520,
        memory_bytes: 0,
    });
    [node(silent), node(late)]
}

/// Layout of a terminal with this number of columns.
fn on(columns: usize) -> Layout {
    Layout {
        width: Some(columns),
        ..Layout::default()
    }
}

/// A node with a silent agent, one with a brake, and one with a long name and little memory.
fn nodes() -> Vec<NodeView> {
    let [silent, late] = others();
    let mut far = status("ip-10-0-12-34.eu-central-1.compute.internal");
    far.bound = Some(wire::Amounts {
        cpu_milli: 120,
        memory_bytes: 70 << 10,
    });
    vec![silent, node(status("worker-1")), late, node(far)]
}

#[test]
fn tables_of_nodes_and_reports_fit_80_120_and_200_columns() {
    for columns in [80, 120, 200] {
        for (name, table) in [
            ("top", top_table as fn(&[NodeView], Layout) -> StyledText),
            ("hints", hints_table),
        ] {
            let text = table(&nodes(), on(columns)).plain();
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(columns), "{text}");
            assert_snapshot!(format!("{name}_at_{columns}"), text);
        }
    }
}

#[test]
fn a_wide_table_has_all_columns() {
    let wide = Layout {
        is_wide: true,
        ..on(80)
    };
    assert_snapshot!("top_wide", top_table(&nodes(), wide).plain());
    assert_snapshot!("hints_wide", hints_table(&nodes(), wide).plain());
}

#[test]
fn each_column_has_one_unit() {
    let text = top_table(&nodes(), Layout::default()).plain();
    for line in text.lines().skip(1) {
        assert!(!line.contains("GiB") && !line.contains("KiB"), "{line}");
    }
}

#[test]
fn peak_and_use_both_include_the_reserved_amount() {
    let mut status = status("worker-1");
    let memory = |status: &mut wire::NodeStatus, used: u64, predicted: u64| {
        let part = &mut status.hint.as_mut().unwrap().resources[1];
        (part.capacity, part.usage, part.predicted_peak) = (8 << 30, used, predicted);
    };
    status.raw.as_mut().unwrap().memory_bytes = 7 << 30;
    // The machine uses 1.8 GiB, 1 GiB of it reserved; the report predicts 1.5 GiB in addition to the reservation.
    memory(&mut status, 18 << 27, 3 << 29);
    let seen = node(status.clone());
    assert_eq!(
        (seen.used(Resource::Memory), seen.peak(Resource::Memory)),
        (Some(18 << 27), Some(5 << 29))
    );
    assert_eq!(row_json(&seen)["mem_peak_bytes"], 5_u64 << 29);
    // Use above the prediction is the peak.
    memory(&mut status, 3 << 30, 3 << 29);
    assert_eq!(node(status.clone()).peak(Resource::Memory), Some(3 << 30));
    memory(&mut status, 3 << 30, 0);
    assert_eq!(node(status).peak(Resource::Memory), None);
}

#[test]
fn problems_are_coloured() {
    let mut status = status("worker-1");
    status.hint_standing = "stop".to_owned();
    status.hint.as_mut().unwrap().resources[0].brake = 3;
    let text = top_table(&[node(status)], Layout::default());
    assert!(
        text.painted()
            .contains("\u{1b}[31mcpu L3 stop, memory L2 shed\u{1b}[0m"),
        "{}",
        text.painted()
    );
    assert!(
        text.painted().contains("\u{1b}[31m3s expired\u{1b}[0m"),
        "{}",
        text.painted()
    );
}

#[test]
fn a_line_has_all_columns_of_a_row() {
    assert_snapshot!(top_line(&node(status("worker-1"))), @r"
    node=worker-1 mode=auto sees=full cpu-used=11240m cpu-peak=15290m cpu-ratio=1.28 cpu-auto=- cpu-raw=31500m cpu-alloc=40320m cpu-bound=30000m cpu-free=10320m mem-used=66000Mi mem-peak=88883Mi mem-ratio=1.00 mem-auto=- mem-raw=120832Mi mem-alloc=120832Mi mem-bound=106496Mi mem-free=14336Mi brake=memory-L2-shed age=3s
    ");
    assert_snapshot!(hint_line(&node(status("worker-1"))), @r"
    node=worker-1 age=3s sees=full cpu-ratio=1.28 cpu-target=1.28 cpu-brake=none mem-ratio=1.00 mem-target=1.00 mem-brake=L2-shed history=100.0% report=7 pods-generation=4711 cpu-expected=15290m mem-expected=81101Mi
    ");
}

#[test]
fn the_json_row_has_units_in_its_keys() {
    assert_snapshot!(format!("{:#}", row_json(&node(status("worker-1")))), @r#"
    {
      "allocatable_cpu_milli": 40320,
      "allocatable_mem_bytes": 126701535232,
      "bound_cpu_milli": 30000,
      "bound_mem_bytes": 111669149696,
      "brake_cpu": 0,
      "brake_mem": 2,
      "cpu_peak_milli": 15290,
      "cpu_used_milli": 11240,
      "free_cpu_milli": 10320,
      "free_mem_bytes": 15032385536,
      "hint_age_ms": 3000,
      "hint_standing": "fresh",
      "history_age_s": 12345,
      "history_beginning": "nothing-saved",
      "mem_peak_bytes": 93200370893,
      "mem_used_bytes": 69206016000,
      "mode": "auto",
      "node": "worker-1",
      "pods": 31,
      "ratio_cpu_cents": 128,
      "ratio_mem_cents": 100,
      "raw_cpu_milli": 31500,
      "raw_mem_bytes": 126701535232,
      "reasons_cpu": [
        "slack"
      ],
      "reasons_mem": [
        "direct-reclaim",
        "clamped-max"
      ],
      "sight": "FULL",
      "source": "ebpf",
      "timing": "production",
      "uid": "u1",
      "why_cpu": [
        "hint"
      ],
      "why_mem": [
        "hint",
        "clamped-max"
      ],
      "would_be_cpu_milli": null,
      "would_be_mem_bytes": null,
      "would_be_ratio_cpu_cents": null,
      "would_be_ratio_mem_cents": null
    }
    "#);
}

#[test]
fn an_unknown_value_is_refused_with_its_field() {
    let unknown = wire::NodeStatus {
        hint_standing: "stale".to_owned(),
        ..status("worker-1")
    };
    assert_eq!(
        NodeView::try_from(unknown).unwrap_err().to_string(),
        r#"hint_standing: "stale" is unknown"#
    );
    let mut unknown = status("worker-1");
    unknown.policy.as_mut().unwrap().mode_from = "rumour".to_owned();
    assert_eq!(
        NodeView::try_from(unknown).unwrap_err().to_string(),
        r#"mode_from: "rumour" is not known"#
    );
}
