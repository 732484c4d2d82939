//! Tests of the health of signals when hooks, files or features of the machine are missing.

use serde_json::{Value, json};

use super::*;
use crate::{
    kernel::probe::HookVerdict,
    local::status::{FIELDS, Place},
};

fn cpu_source(origin: Origin, verdicts: Vec<HookVerdict>, obstacle: Option<&str>) -> CpuSource {
    CpuSource {
        origin,
        verdicts,
        obstacle: obstacle.map(ToOwned::to_owned),
        shed: Shed::Nothing,
        is_calm: false,
    }
}

fn refused(hook: Hook, health: Health) -> HookVerdict {
    HookVerdict {
        hook,
        health,
        flavour: None,
        reason: Some("not today".to_owned()),
        verifier_log: None,
    }
}

fn signal_statuses(
    cpu_source: &CpuSource,
    failing: &BTreeSet<GatheredSignal>,
    lacking: &[Need],
) -> Vec<SignalStatus> {
    let plain = SIGNALS.iter().filter_map(|signal| signal.plain);
    status(&Readings {
        measured: Some(Measured {
            mem_spare_bytes: Some(3),
            ..Measured::default()
        }),
        pods: Some((1, 2)),
        plain: &plain.map(|plain| (plain.name, PlainReading::Value(3))).collect(),
        events: Some(EventCounters::default()),
        cpu_source,
        failing,
        lacking: &lacking.iter().copied().collect(),
    })
}

/// Names of the signals that are not in order, with their health.
fn missing(signals: &[SignalStatus]) -> Vec<(&str, &str)> {
    let missing = signals.iter().filter(|signal| signal.missing.is_some());
    missing
        .map(|signal| (signal.name.as_str(), signal.health.as_str()))
        .collect()
}

#[test]
fn names_differ_and_every_signal_says_what_it_is() {
    let names: BTreeSet<_> = SIGNALS.iter().map(|signal| signal.name).collect();
    assert_eq!(names.len(), SIGNALS.len());
    for signal in SIGNALS {
        assert!(
            !signal.source().is_empty() && !signal.about.is_empty(),
            "{}",
            signal.name
        );
        assert!(
            !signal.cost.is_empty() && !signal.missing.is_empty(),
            "{}",
            signal.name
        );
    }
}

#[test]
fn each_figure_of_a_second_is_the_signal_that_the_list_of_fields_names() {
    // A number of its own for each: one that is mixed up shows.
    let figures = json!(Measured::default());
    let names = figures.as_object().unwrap().keys().zip(1_u64..);
    let numbered: Value = names
        .map(|(name, number)| (name.clone(), Value::from(number)))
        .collect();
    let readings = Readings {
        measured: serde_json::from_value(numbered.clone()).unwrap(),
        pods: None,
        plain: &PlainReadings::default(),
        events: None,
        cpu_source: &cpu_source(Origin::Ebpf, Vec::new(), None),
        failing: &BTreeSet::new(),
        lacking: &BTreeSet::new(),
    };
    let signals = status(&readings);
    let mut named = BTreeSet::new();
    for field in FIELDS {
        let Place::Signal(name) = field.place else {
            continue;
        };
        let signal = signals.iter().find(|signal| signal.name == name).expect(name);
        let figure = field.path.strip_prefix("measured.").expect("a figure");
        assert_eq!(signal.value, numbered[figure].as_u64(), "{name}");
        assert_eq!(signal.unit, field.unit.name(), "{name}");
        assert!(named.insert(name), "{name} is one figure");
    }
    let measured = signals.iter().filter(|signal| signal.value.is_some());
    assert_eq!(
        named.len(),
        measured.count(),
        "each signal of the second is in the list"
    );
}

#[test]
fn every_metric_of_a_signal_is_in_the_catalogue() {
    for metric in SIGNALS.iter().filter_map(|signal| signal.metric) {
        let mut known = crate::metrics::LISTS.into_iter().flatten();
        assert!(known.any(|known| known.name == metric.name), "{}", metric.name);
    }
}

#[test]
fn with_all_programs_and_files_nothing_is_missing() {
    let signals = signal_statuses(&cpu_source(Origin::Ebpf, Vec::new(), None), &BTreeSet::new(), &[]);
    assert_eq!(missing(&signals), []);
    assert!(signals.iter().all(|signal| signal.value.is_some()));
}

#[test]
fn a_signal_may_show_the_counter_of_a_hook() {
    let row = Signal {
        name: "cgroups-created",
        hooks: &[Hook::CgroupMkdir],
        value: |readings| readings.events.map(|events| events.changes.cgroup_mkdir),
        ..SIGNALS[0]
    };
    let value = |events| {
        let readings = Readings {
            measured: None,
            pods: None,
            plain: &PlainReadings::new(),
            events,
            cpu_source: &cpu_source(Origin::Ebpf, Vec::new(), None),
            failing: &BTreeSet::new(),
            lacking: &BTreeSet::new(),
        };
        row.status(&readings).value
    };
    let mut events = EventCounters::default();
    events.changes.cgroup_mkdir = 7;
    assert_eq!((value(Some(events)), value(None)), (Some(7), None));
}

#[test]
fn procfs_lacks_what_only_kernel_programs_see_and_says_why() {
    let procfs = cpu_source(Origin::Procfs, Vec::new(), Some("--source procfs"));
    let signals = signal_statuses(&procfs, &BTreeSet::new(), &[]);
    let names: Vec<_> = missing(&signals).into_iter().map(|(name, _)| name).collect();
    let without_files = SIGNALS.iter().filter(|signal| signal.files.is_empty());
    let without_files: Vec<_> = without_files.map(|signal| signal.name).collect();
    assert_eq!(names, without_files);
    let sigma8 = signals.iter().find(|signal| signal.name == "sigma8").unwrap();
    assert_eq!((sigma8.health.as_str(), sigma8.value), ("unsupported", None));
    assert!(
        sigma8
            .missing
            .as_ref()
            .unwrap()
            .ends_with("the reason: --source procfs")
    );
    let busy = signals.iter().find(|signal| signal.name == "cpu-busy").unwrap();
    assert_eq!((busy.source.as_str(), busy.value), ("/proc/stat", Some(0)));
}

#[test]
fn programs_that_were_refused_are_a_failure_and_not_a_lack() {
    let verdicts = vec![refused(Hook::SchedSwitch, Health::Failed)];
    let signals = signal_statuses(
        &cpu_source(Origin::Procfs, verdicts, Some("BPF is denied")),
        &BTreeSet::new(),
        &[],
    );
    assert!(missing(&signals).contains(&("sigma8", "failed")));
}

#[test]
fn a_wake_up_that_is_not_seen_takes_run_queue_latency_along_and_nothing_else() {
    let verdicts = vec![refused(Hook::SchedWakeupNew, Health::Unsupported)];
    let signals = signal_statuses(&cpu_source(Origin::Ebpf, verdicts, None), &BTreeSet::new(), &[]);
    assert_eq!(
        missing(&signals),
        [("run-queue-p50", "unsupported"), ("run-queue-p99", "unsupported")]
    );
}

#[test]
fn an_agent_that_sheds_wake_ups_says_so() {
    let shedding = CpuSource {
        shed: Shed::WakeUps,
        ..cpu_source(Origin::Ebpf, Vec::new(), None)
    };
    let signals = signal_statuses(&shedding, &BTreeSet::new(), &[]);
    assert_eq!(
        missing(&signals),
        [("run-queue-p50", "unsupported"), ("run-queue-p99", "unsupported")]
    );
}

#[test]
fn what_fails_and_what_the_machine_lacks_is_told_apart() {
    let lacking = &[Need::CpuPressure, Need::Kubepods];
    let failing = BTreeSet::from([GatheredSignal::Pods]);
    let signals = signal_statuses(&cpu_source(Origin::Ebpf, Vec::new(), None), &failing, lacking);
    assert_eq!(
        missing(&signals),
        [
            ("psi-cpu", "unsupported"),
            ("psi-memory-some", "ok"),
            ("psi-memory-full", "ok"),
            ("working-set", "unsupported"),
            ("limit-hits", "unsupported"),
            ("pod-cpu", "failed"),
            ("pod-memory", "failed"),
            ("exclusive-cpus", "unsupported"),
        ]
    );
}

#[test]
fn rows_that_kubepods_does_not_have_are_not_shown_as_zero() {
    let lacking = &[Need::WorkingSet, Need::KubepodsPressure, Need::LimitEvents];
    let signals = signal_statuses(
        &cpu_source(Origin::Ebpf, Vec::new(), None),
        &BTreeSet::new(),
        lacking,
    );
    assert_eq!(
        missing(&signals),
        [
            ("psi-memory-some", "ok"),
            ("psi-memory-full", "ok"),
            ("working-set", "unsupported"),
            ("limit-hits", "unsupported"),
        ]
    );
    let signal = |name| signals.iter().find(|signal| signal.name == name).unwrap();
    let some = signal("psi-memory-some");
    assert_eq!(
        (some.source.as_str(), some.value),
        ("/proc/pressure/memory", Some(0)),
        "the machine's is measured"
    );
    assert!(
        some.missing
            .as_ref()
            .unwrap()
            .contains("kubepods has no memory.pressure")
    );
    assert_eq!(signal("limit-hits").value, None);
}
