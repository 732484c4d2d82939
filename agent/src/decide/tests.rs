//! Tests of `Decider` on simulated machines, nearly all under the demo's timing. They cover the ratio under changing
//! load, reports, brakes and checkpoints.

use std::collections::BTreeMap;

use headroom_agent_ebpf::Changes;
use headroom_domain::{
    estimate::{PodRequest, PodUse, Profile, Reason, View, confidence_ppm},
    hint::{AgentMode, Brake, Past},
    policy::{Bounds, Policy},
    ratio::Cents,
    resource::{PerResource, Resource},
};
use headroom_proto::NodeView;

use super::{
    fixtures::{CPUS, MEMORY, POLL, QUARTER, sample},
    *,
};
use crate::{
    args::Args,
    config::File,
    gather::{GatheredSignal, PinnedUse, PodFrame, Used},
    kernel::{
        hooks::EventCounters,
        supervisor::{ProbeState, Shed},
    },
    local::{checkpoint::CheckpointFile, status::Status},
    sample::{
        Origin, Window,
        memory::{Kills, MemoryCounters, Vmstat},
        psi::Psi,
    },
};

mod calm;
mod figures;
mod isolated;

const GIB: u64 = 1 << 30;

fn decider(origin: Origin) -> Decider {
    let identity = Identity {
        node: "n1".into(),
        boot_id: "b1".into(),
    };
    let cpu_source = CpuSource {
        origin,
        verdicts: Vec::new(),
        obstacle: None,
        shed: Shed::Nothing,
        is_calm: false,
    };
    Decider::new(identity, cpu_source, Profile::Demo.timing(), POLL)
}

/// Three pods that request nearly all of the node.
fn pods(generation: u64) -> Directive {
    let request = PodRequest {
        requests: PerResource {
            cpu: 1200,
            memory: 2 * GIB,
        },
        ..PodRequest::default()
    };
    let policy = Policy::default();
    let view = View {
        generation,
        capacity: PerResource {
            cpu: u64::from(CPUS) * 1000,
            memory: MEMORY,
        },
        raw: PerResource {
            cpu: 3900,
            memory: 7 * GIB,
        },
        pods: ["p1", "p2", "p3"].map(|uid| (uid.to_owned(), request)).into(),
        bounds: policy.bounds,
        target_ppm: policy.target_ppm,
        admitted: PerResource::default(),
    };
    Directive::Pods(NodeView {
        node_uid: "u1".into(),
        view,
        has_memory_pressure: false,
    })
}

fn decider_with_view() -> Decider {
    let mut decider = decider(Origin::Ebpf);
    decider.direct(pods(1));
    decider
}

/// Use of the three pods, at a frame's end.
fn used(cpu: u64) -> PodFrame {
    let part = PerResource {
        cpu: cpu / 3,
        memory: GIB / 2,
    };
    let used = ["p1", "p2", "p3"].map(|uid| {
        (
            uid.to_owned(),
            PodUse {
                low: part,
                high: part,
            },
        )
    });
    PodFrame {
        used: BTreeMap::from(used),
        ..PodFrame::default()
    }
}

/// Runs whole frames (from, exclusive, to, inclusive, in seconds since boot) at this load; the ratios they end with.
fn run(decider: &mut Decider, frames: std::ops::Range<u64>, busy_milli: u64) -> Vec<u32> {
    let mut ratios = Vec::new();
    for quarter in frames.start * 4 + 1..=frames.end * 4 {
        let pods = (quarter % 4 == 0).then(|| used(busy_milli));
        decider.observe(Sample {
            pods,
            ..sample(quarter, busy_milli)
        });
        if quarter % 4 == 0 {
            ratios.push(decider.inputs.estimates().cpu.published.0);
        }
    }
    ratios
}

#[test]
fn the_ratio_rises_on_an_idle_node_falls_at_once_under_load_and_recovers() {
    let mut decider = decider_with_view();
    let rising = run(&mut decider, 10..50, 400);
    assert_eq!(rising[0], 100, "nothing is known yet");
    assert!(rising.is_sorted(), "{rising:?}");
    let high = *rising.last().unwrap();
    // T 3600 - P 440 + Rw 3600 - A 3900 = 2860 of slack on 3900: 1.73, of which the last step is too small to be made.
    assert_eq!(high, 170);

    let loaded = run(&mut decider, 50..52, 3400);
    assert_eq!(
        loaded[0], 100,
        "the frame with the load takes all of it: {loaded:?}"
    );

    let after = run(&mut decider, 52..100, 400);
    let forgotten = after.iter().position(|ratio| *ratio > 100).unwrap();
    assert!(
        (20..26).contains(&forgotten),
        "20 frames of memory and 3 of agreement: {after:?}"
    );
    assert_eq!(*after.last().unwrap(), high);
}

/// The first CPUs of this number.
fn first_cpus(count: u32) -> CpuSet {
    CpuSet::parse(&format!("0-{}", count - 1)).unwrap()
}

#[test]
fn exclusive_cpus_are_reported_untrusted_and_count_as_busy() {
    let mut decider = decider(Origin::Ebpf);
    let Directive::Pods(mut directive) = pods(1) else {
        panic!("the directive has pods");
    };
    directive.view.pods.get_mut("p1").unwrap().is_guaranteed = true;
    decider.direct(Directive::Pods(directive));
    let mut run = |seconds: std::ops::Range<u64>, cpus: Option<u32>| {
        for quarter in seconds.start * 4 + 1..=seconds.end * 4 {
            let pods = (quarter % 4 == 0).then(|| used(400));
            let held = PinnedUse {
                uid: "p1".to_owned(),
                cpus: cpus.into_iter().map(first_cpus).collect(),
                used: Some(Used {
                    elapsed_ns: QUARTER,
                    cpu_ns: QUARTER / 10,
                }),
            };
            decider.observe(Sample {
                pods,
                pinned_use: Some(vec![held]),
                ..sample(quarter, 400)
            });
        }
        let hint = decider.final_report().unwrap();
        let p1 = hint.trust.iter().find(|trust| trust.uid == "p1").unwrap().clone();
        let cpu = hint.resources.cpu;
        (p1.exclusive_cpus_milli, p1.cpu_ppm, cpu.warm_requests, cpu.peak)
    };
    // The set of three CPUs is the shared rest; 1200m requested, of which 100m are used.
    assert_eq!(run(10..50, Some(3)), (0, 1_000_000, 3600, 400));
    assert_eq!(run(50..51, Some(1)), (1000, 0, 2400, 1500));
    assert_eq!(
        run(51..52, None),
        (0, 1_000_000, 3600, 1500),
        "the peak is remembered"
    );
}

#[test]
fn first_report_contains_exclusive_cpus() {
    let Directive::Pods(mut directive) = pods(1) else {
        panic!("the directive has pods");
    };
    directive.view.pods.get_mut("p1").unwrap().is_guaranteed = true;
    let held = PinnedUse {
        uid: "p1".to_owned(),
        cpus: vec![first_cpus(1)],
        used: None,
    };
    // The sample in which cpusets are read for the first time, before and after the first directive, which follows sample 2.
    for read in [1, 4] {
        let mut decider = decider(Origin::Ebpf);
        let mut reports = Vec::new();
        for number in 1..=6 {
            decider.observe(Sample {
                pinned_use: (number == read).then(|| vec![held.clone()]),
                knows_shared_cpus: number >= read,
                ..sample(40 + number, 400)
            });
            if number == 2 {
                decider.direct(Directive::Pods(directive.clone()));
            }
            reports.extend(decider.report());
        }
        let exclusive = |hint: &NodeHint| {
            hint.trust
                .iter()
                .map(|trust| trust.exclusive_cpus_milli)
                .sum::<u64>()
        };
        let amounts: Vec<u64> = reports.iter().map(exclusive).collect();
        assert!(
            !amounts.is_empty() && amounts.iter().all(|amount| *amount == 1000),
            "read at {read}: {amounts:?}"
        );
    }
}

#[test]
fn reports_do_not_wait_for_unreadable_cpusets() {
    let mut decider = decider(Origin::Ebpf);
    decider.direct(pods(1));
    let mut observe = |quarter| {
        decider.observe(Sample {
            knows_shared_cpus: false,
            ..sample(quarter, 400)
        });
        decider.report().is_some()
    };
    assert!(!observe(41));
    assert!((42..=60).any(observe));
}

#[test]
fn a_frame_without_a_reading_of_exclusive_cpus_does_not_count() {
    // How often they are read, in quarters of a second, and until which second.
    for (every, until, coverage_ppm) in [(8, 100, 1_000_000), (1, 50, 0), (8, 50, 0)] {
        let mut decider = decider(Origin::Ebpf);
        let Directive::Pods(mut directive) = pods(1) else {
            panic!("the directive has pods");
        };
        directive.view.pods.get_mut("p1").unwrap().is_guaranteed = true;
        decider.direct(Directive::Pods(directive));
        for quarter in 10 * 4 + 1..=100 * 4 {
            let held = PinnedUse {
                uid: "p1".to_owned(),
                cpus: vec![first_cpus(1)],
                used: None,
            };
            let is_read = quarter % every == 0 && quarter <= until * 4;
            decider.observe(Sample {
                pinned_use: is_read.then(|| vec![held]),
                ..sample(quarter, 400)
            });
        }
        let seen = decider.inputs.estimates().cpu.coverage_ppm;
        assert_eq!(seen, coverage_ppm, "read every {every} quarters until {until} s");
    }
}

#[test]
fn a_report_contains_measurements_and_estimates() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let hint = decider.report().unwrap();
    assert_eq!(
        (hint.node.as_str(), hint.node_uid.as_str(), hint.boot_id.as_str()),
        ("n1", "u1", "b1")
    );
    assert_eq!(
        (hint.sight, hint.timing, hint.pods_generation),
        (AgentMode::Full, Profile::Demo, 1)
    );
    let cpu = &hint.resources.cpu;
    assert_eq!(
        (cpu.capacity, cpu.usage, cpu.peak, cpu.predicted_peak),
        (4000, 400, 400, 440)
    );
    assert_eq!(
        (cpu.published, cpu.target, cpu.brake),
        (Cents(170), Cents(173), Brake::Off)
    );
    assert_eq!(hint.resources.memory.usage, MEMORY / 4);
    assert_eq!(
        hint.resources.memory.published,
        Cents::ONE,
        "memory is off by default"
    );
    assert_eq!(hint.trust.len(), 3);
    assert!(hint.trust.iter().all(|trust| trust.cpu_ppm == 1_000_000));
    let wire = headroom_proto::v1alpha1::HintReport::from(&hint);
    assert_eq!(NodeHint::try_from(wire).unwrap(), hint, "a hint server takes it");
}

#[test]
fn reports_are_due_on_change_at_frame_ends_and_after_the_interval() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let seq = decider.report().unwrap().seq;
    assert_eq!(seq, 50_000, "milliseconds since boot");
    assert_eq!(decider.report(), None);
    decider.observe(sample(201, 400));
    assert_eq!(
        decider.report(),
        None,
        "in the middle of a frame, all is as it was"
    );
    decider.direct(pods(2));
    let next = decider.report().unwrap();
    assert!((next.seq, next.pods_generation) == (50_250, 2));
    for quarter in 202..=204 {
        decider.observe(sample(quarter, 400));
    }
    assert!(decider.report().unwrap().seq > next.seq, "the frame ended");
}

#[test]
fn production_reports_at_the_interval() {
    let identity = Identity {
        node: "n1".into(),
        boot_id: "b1".into(),
    };
    let cpu_source = CpuSource {
        origin: Origin::Ebpf,
        verdicts: Vec::new(),
        obstacle: None,
        shed: Shed::Nothing,
        is_calm: false,
    };
    let mut decider = Decider::new(identity, cpu_source, Profile::Production.timing(), POLL);
    decider.direct(pods(1));
    let mut reported = Vec::new();
    for quarter in 4..400 {
        decider.observe(sample(quarter, 400));
        reported.extend(decider.report().map(|_| quarter));
    }
    assert_eq!(reported, [4, 64, 124, 184, 244, 304, 364]);
}

#[test]
fn nothing_is_reported_before_the_first_directive() {
    let mut decider = decider(Origin::Ebpf);
    run(&mut decider, 10..12, 400);
    assert_eq!((decider.report(), decider.final_report()), (None, None));
    assert_eq!(decider.status().mode, "BLIND");
    assert_eq!(decider.status().resources[0].reasons, ["no-directive"]);
    decider.direct(pods(1));
    assert!(decider.report().is_some());
}

#[test]
fn the_first_report_follows_the_first_sample_and_continues_the_numbers_of_the_previous_agent() {
    let mut decider = decider_with_view();
    assert_eq!((decider.report(), decider.final_report()), (None, None));
    decider.observe(sample(200, 400));
    let first = decider.report().unwrap();
    assert_eq!(first.seq, 50_000, "milliseconds since boot");
    assert_eq!(
        (first.sight, first.resources.cpu.capacity),
        (AgentMode::Blind, 4_000)
    );
    assert_eq!(first.resources.memory.capacity, MEMORY);
    assert_eq!(first.resources.cpu.reasons, ["no-history"]);
}

#[test]
fn a_report_contains_the_terms_of_its_peak_margin_and_ratio() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let (hint, status) = (decider.report().unwrap(), decider.status());
    for (resource, said) in Resource::ALL.into_iter().zip(&status.resources) {
        let part = hint.resources.get(resource);
        let (highs, history) = (part.highs.unwrap(), said.history.unwrap());
        assert_eq!(
            (highs.highest, highs.last, highs.climb),
            (history.highest, history.last, history.climb)
        );
        assert!(highs.highest > 0, "{highs:?}");
        let calibration = part.calibration.unwrap();
        assert_eq!(
            (calibration.accumulator_ppm, calibration.is_latched),
            (said.calibration.accumulator_ppm, said.calibration.is_latched)
        );
        assert_eq!(part.progress.unwrap().stepped.0, said.published_cents);
        let confidence_ppm = confidence_ppm(part.coverage_ppm, part.warm_requests, said.bound);
        assert_eq!(confidence_ppm, said.confidence_ppm);
    }
}

#[test]
fn the_last_report_states_that_the_agent_ends() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..12, 400);
    let (before, last) = (decider.report().unwrap(), decider.final_report().unwrap());
    assert!(last.is_draining && !before.is_draining && last.seq > before.seq);
}

#[test]
fn a_node_object_about_another_machine_blinds_the_agent_until_it_is_corrected() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let Directive::Pods(mut other) = pods(2) else {
        unreachable!()
    };
    other.view.capacity.cpu = 1000;
    decider.direct(Directive::Pods(other));
    let hint = decider.report().unwrap();
    assert_eq!(
        (hint.sight, hint.resources.cpu.published),
        (AgentMode::Blind, Cents::ONE)
    );
    assert_eq!(hint.resources.cpu.reasons, ["capacity-mismatch"]);
    assert_eq!(hint.resources.cpu.capacity, 4000);
    assert!(
        decider.status().mode_sentence.contains("4000 of cpu"),
        "{}",
        decider.status().mode_sentence
    );
    decider.direct(pods(3));
    assert_eq!(decider.report().unwrap().sight, AgentMode::Full);
}

#[test]
fn the_highest_generation_is_followed_and_another_node_object_resets_it() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..12, 400);
    decider.direct(pods(9));
    decider.direct(pods(8));
    assert_eq!(decider.report().unwrap().pods_generation, 9);
    let Directive::Pods(mut reborn) = pods(2) else {
        unreachable!()
    };
    reborn.node_uid = "u2".into();
    decider.direct(Directive::Pods(reborn));
    let hint = decider.report().unwrap();
    assert_eq!((hint.node_uid.as_str(), hint.pods_generation), ("u2", 2));
}

#[test]
fn an_unconfirmed_view_outranks_others_for_ten_minutes() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..12, 400);
    decider.direct(pods(9));
    let followed = |decider: &mut Decider, frame: u64| {
        run(decider, frame..frame + 1, 400);
        decider.direct(pods(8));
        decider.report().unwrap().pods_generation
    };
    assert_eq!(followed(&mut decider, 600), 9);
    decider.direct(pods(9));
    assert_eq!(followed(&mut decider, 1_199), 9, "it was confirmed meanwhile");
    assert_eq!(followed(&mut decider, 1_202), 8);
}

#[test]
fn a_pod_that_is_being_deleted_lowers_the_ratio_at_once() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let before = decider.inputs.estimates().cpu.published;
    let Directive::Pods(mut view) = pods(2) else {
        unreachable!()
    };
    view.view.pods.get_mut("p1").unwrap().is_deleting = true;
    decider.direct(Directive::Pods(view));
    assert!(decider.report().unwrap().resources.cpu.published < before);
}

#[test]
fn a_policy_moves_the_bounds() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let policy = Policy::default();
    let bounds = policy.bounds.map(|_, bounds| Bounds {
        max: Cents(120),
        ..*bounds
    });
    decider.direct(Directive::Policy {
        bounds,
        target_ppm: policy.target_ppm,
    });
    assert_eq!(decider.report().unwrap().resources.cpu.published, Cents(120));
    decider.direct(pods(2));
    assert_eq!(
        decider.inputs.estimates().cpu.published,
        Cents(120),
        "it outlives the next list of pods"
    );
}

#[test]
fn contention_brakes_before_the_frame_ends() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let saturated = |quarter: u64| {
        let mut sample = sample(quarter, 4000);
        let poll = sample.poll.as_mut().unwrap();
        for window in &mut poll.counts.windows.windows {
            let busy_ns = u64::from(CPUS) * headroom_agent_ebpf::ring::WINDOW_NS;
            *window = Window {
                busy_ns,
                shared_busy_ns: busy_ns,
                wait_ns: 0,
            };
        }
        sample
    };
    for quarter in 201..=205 {
        decider.observe(saturated(quarter));
    }
    let hint = decider.report().unwrap();
    assert_eq!(hint.resources.cpu.brake, Brake::Hold);
    assert_eq!(hint.resources.cpu.reasons[0], "cpu-no-idle");
    assert!(signal(&hint, "sigma8") > 900_000, "{:?}", hint.signals);
}

/// The value of a signal that is reported.
fn signal(hint: &NodeHint, name: &str) -> u64 {
    let found = hint.signals.iter().find(|signal| signal.name == name);
    found.unwrap().value
}

#[test]
fn a_report_has_every_signal_of_the_table_that_has_a_value() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let shown = decider.status().signals.into_iter();
    let shown: Vec<_> = shown
        .filter_map(|signal| Some((signal.name, signal.unit, signal.value?)))
        .collect();
    let hint = decider.final_report().unwrap();
    let reported = hint.signals.into_iter();
    let reported: Vec<_> = reported
        .map(|signal| (signal.name, signal.unit, signal.value))
        .collect();
    assert_eq!(reported, shown);
    assert!(reported.len() > 15, "{reported:?}");
}

#[test]
fn the_use_of_all_pods_is_a_signal_once_a_pod_is_measured() {
    let mut decider = decider_with_view();
    decider.observe(sample(41, 600));
    let shown = |decider: &Decider| {
        let signals = decider.status().signals.into_iter();
        let of_pods = signals.filter(|signal| signal.name.starts_with("pod-"));
        of_pods.map(|signal| signal.value).collect::<Vec<_>>()
    };
    assert_eq!(shown(&decider), [None, None]);
    run(&mut decider, 10..11, 600);
    assert_eq!(shown(&decider), [Some(600), Some(3 * (GIB / 2))]);
}

/// Counters after an OOM kill of the machine's own.
fn node_oom() -> MemoryCounters {
    MemoryCounters {
        vm: Some(Vmstat {
            oom_kills: 1,
            ..Vmstat::default()
        }),
        kills: Kills { node: 1, limit: 0 },
        ..MemoryCounters::default()
    }
}

#[test]
fn an_oom_kill_stops_the_node_at_the_next_sample() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let memory_pressure = node_oom();
    decider.observe(Sample {
        memory_pressure,
        ..sample(201, 400)
    });
    let hint = decider.report().unwrap();
    assert_eq!(hint.resources.memory.brake, Brake::Stop);
    assert_eq!(
        (hint.resources.cpu.brake, signal(&hint, "oom-kills")),
        (Brake::Hold, 1)
    );
}

/// Brake period in which available memory fell to this minimum for a moment, out of [`MEMORY`].
fn period_with(decider: &mut Decider, available: u64) {
    for quarter in 201..=205 {
        let mut sample = sample(quarter, 400);
        if quarter == 203 {
            sample.meminfo.as_mut().unwrap().available = available;
        }
        decider.observe(sample);
    }
}

#[test]
fn memory_brakes_before_the_kubelet_evicts() {
    const MIB: u64 = 1 << 20;
    // A is 7 GiB, the kubelet evicts below 100 MiB: 5, 3 and 1 % of A above that.
    for (available, expected) in [
        (459 * MIB, Brake::Off),
        (458 * MIB, Brake::Hold),
        (316 * MIB, Brake::Hold),
        (315 * MIB, Brake::Shed),
        (172 * MIB, Brake::Shed),
        (171 * MIB, Brake::Stop),
    ] {
        let mut decider = decider_with_view();
        run(&mut decider, 10..50, 400);
        period_with(&mut decider, available);
        let memory = decider.report().unwrap().resources.memory;
        assert_eq!(memory.brake, expected, "{} MiB", available / MIB);
        if expected > Brake::Off {
            assert_eq!(memory.reasons[0], "memory-available");
        }
        let spare = decider.status().measured.unwrap().mem_spare_bytes;
        assert_eq!(spare, Some(available - 100 * MIB));
    }
}

#[test]
fn the_eviction_threshold_comes_from_the_settings() {
    let mut decider = decider_with_view();
    let flags = "headroom-agent --node-name n --ca-file c --token-file t --eviction-hard-memory 75%";
    let args = Args::read(flags.split(' ').map(Into::into)).unwrap();
    decider.adopt(&Settings::resolve(&args, &File::default()));
    run(&mut decider, 10..12, 400);
    let memory = decider.report().unwrap().resources.memory;
    assert_eq!(
        (memory.brake, memory.reasons[0].as_str()),
        (Brake::Stop, "memory-available")
    );
}

#[test]
fn the_kubelets_pressure_condition_stops_memory_in_the_next_period_and_while_it_lasts() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let pressed = |generation, has_memory_pressure| match pods(generation) {
        Directive::Pods(view) => Directive::Pods(NodeView {
            has_memory_pressure,
            ..view
        }),
        other @ (Directive::Policy { .. } | Directive::Workloads { .. }) => other,
    };
    decider.direct(pressed(2, true));
    run(&mut decider, 50..51, 400);
    let hint = decider.report().unwrap();
    assert_eq!(
        (hint.resources.memory.brake, hint.resources.cpu.brake),
        (Brake::Stop, Brake::Hold)
    );
    assert_eq!(hint.resources.memory.reasons[0], "memory-pressure");
    decider.direct(pressed(2, false));
    // The demo lets go of a stop after six seconds.
    run(&mut decider, 51..56, 400);
    assert_eq!(decider.inputs.estimates().memory.brake, Brake::Stop);
    run(&mut decider, 56..58, 400);
    assert_eq!(decider.inputs.estimates().memory.brake, Brake::Off);
}

#[test]
fn procfs_alone_is_in_the_mode_and_has_a_larger_margin() {
    let mut decider = decider(Origin::Procfs);
    decider.direct(pods(1));
    for quarter in 41..=200 {
        let pods = (quarter % 4 == 0).then(|| used(400));
        let mut sample = Sample {
            pods,
            ..sample(quarter, 400)
        };
        sample.poll.as_mut().unwrap().origin = Origin::Procfs;
        decider.observe(sample);
    }
    let hint = decider.report().unwrap();
    assert_eq!(
        (hint.sight, hint.resources.cpu.margin_ppm),
        (AgentMode::Proc, 200_000)
    );
    assert_eq!(
        hint.resources.cpu.published,
        Cents(150),
        "no more on the word of procfs alone"
    );
}

#[test]
fn the_status_contains_one_second_and_can_be_parsed() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let status = decider.status();
    let measured = status.measured.unwrap();
    assert_eq!(measured.until_ns - measured.from_ns, 1_000_000_000);
    assert_eq!(
        (
            measured.cpu_used_milli,
            measured.switches_per_s,
            measured.mem_used_bytes
        ),
        (400, 1000, MEMORY / 4)
    );
    let cpu = status.resource(Resource::Cpu).unwrap();
    assert_eq!((cpu.bound, cpu.slack, cpu.published_cents), (3600, 2860, 170));
    let text = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
}

#[test]
fn the_state_of_the_kernel_programs_sets_the_mode_and_its_sentence() {
    let mut decider = decider(Origin::Ebpf);
    decider.direct(pods(1));
    let mut quarter = 4;
    let mut run = |decider: &mut Decider, probe_state: ProbeState| {
        for _ in 0..8 {
            decider.observe(Sample {
                probe_state: Some(probe_state.clone()),
                ..sample(quarter, 400)
            });
            quarter += 1;
        }
        let status = decider.status();
        (status.mode, status.source, status.mode_sentence)
    };
    let shed = ProbeState::counting;
    run(&mut decider, shed(Shed::Nothing));
    let (mode, source, _) = run(&mut decider, shed(Shed::Nothing));
    assert_eq!((mode.as_str(), source.as_str()), ("FULL", "ebpf"));
    let (mode, _, sentence) = run(&mut decider, shed(Shed::To64));
    assert_eq!(mode, "FULL_SHED");
    assert!(sentence.contains("one task in 64"), "{sentence}");
    let (mode, _, sentence) = run(&mut decider, shed(Shed::WakeUps));
    assert_eq!(mode, "FULL_SHED");
    assert!(
        sentence.contains("the CPU brake uses CPU pressure instead"),
        "{sentence}"
    );
    let (mode, ..) = run(&mut decider, shed(Shed::Nothing));
    assert_eq!(mode, "FULL");
    let (mode, source, sentence) = run(&mut decider, ProbeState::Lost("no switch was counted".into()));
    assert_eq!((mode.as_str(), source.as_str()), ("PROC", "procfs"));
    assert!(
        sentence.ends_with("the reason: no switch was counted"),
        "{sentence}"
    );
    assert_eq!(decider.report().unwrap().sight, AgentMode::Proc);
}

#[test]
fn a_frame_in_which_a_cpu_went_offline_and_online_is_void() {
    let coverage = |change_at: u64| {
        let mut decider = decider(Origin::Ebpf);
        decider.direct(pods(1));
        for quarter in 4..40 {
            let counters = EventCounters {
                changes: Changes {
                    offline_steps: u64::from(quarter >= change_at),
                    ..Changes::default()
                },
                ..EventCounters::default()
            };
            decider.observe(Sample {
                event_counters: Some(counters),
                ..sample(quarter, 400)
            });
        }
        decider.inputs.estimates().cpu.coverage_ppm
    };
    // A ring of the demo holds 20 frames.
    assert_eq!(coverage(100) - coverage(22), 1_000_000 / 20);
}

#[test]
fn a_frame_is_void_after_reattachment_and_valid_after_shedding() {
    let coverage = |later: ProbeState| {
        let mut decider = decider(Origin::Ebpf);
        decider.direct(pods(1));
        let first = ProbeState::counting(Shed::Nothing);
        for quarter in 4..40 {
            let probe_state = if quarter < 22 { &first } else { &later };
            decider.observe(Sample {
                probe_state: Some(probe_state.clone()),
                ..sample(quarter, 400)
            });
        }
        decider.inputs.estimates().cpu.coverage_ppm
    };
    let counting = |shed, reattached| {
        coverage(ProbeState::Counting {
            shed,
            is_calm: false,
            reattached,
            verdicts: None,
        })
    };
    let all = counting(Shed::Nothing, 0);
    assert_eq!(counting(Shed::To64, 0), all);
    assert_eq!(all - counting(Shed::Nothing, 1), 1_000_000 / 20);
    assert_eq!(all - coverage(ProbeState::Lost("gone".into())), 1_000_000 / 20);
}

#[test]
fn a_restarted_agent_resumes_its_history() {
    let mut before = decider_with_view();
    run(&mut before, 10..50, 400);
    assert!(before.has_more_to_save(), "a frame ended");
    assert!(!before.has_more_to_save(), "nothing since");
    before.begin(sample(40, 0).at, Beginning::NothingSaved);
    let record = before.record(Duration::from_secs(1000)).unwrap();
    let mut after = decider(Origin::Ebpf);
    // Three seconds passed: as many frames are missing.
    let at = sample(212, 0).at;
    after.resume(record, at, Duration::from_secs(1003)).unwrap();
    let past = Past {
        age_s: 40 + 3,
        beginning: Some(Beginning::NothingSaved),
    };
    assert_eq!(
        after.inputs.past(at),
        past,
        "the history is older by the time away"
    );
    assert_eq!(
        after.inputs.mode().0,
        AgentMode::Blind,
        "no server has described the node yet"
    );
    after.observe(sample(212, 400));
    after.direct(pods(1));
    assert_eq!(after.inputs.estimates().cpu.published, Cents(170));
    // The frame under way is not whole, and three are missing.
    run(&mut after, 53..54, 400);
    let cpu = after.inputs.estimates().cpu;
    assert_eq!(cpu.coverage_ppm, 16 * 1_000_000 / 20);
    assert!(cpu.slack.warm_requests > 0, "pods are known");
    assert_eq!(after.inputs.mode().0, AgentMode::Full);
}

#[test]
fn the_reason_of_a_new_history_is_reported() {
    let mut before = decider_with_view();
    run(&mut before, 10..50, 400);
    let wall = Duration::from_secs(1000);
    let record = before.record(wall).unwrap();
    let resumed = |record: CheckpointFile, quarter: u64, wall: Duration| {
        let mut after = decider(Origin::Ebpf);
        let at = sample(quarter, 0).at;
        after.resume(record, at, wall).unwrap();
        let Past { age_s, beginning } = after.inputs.past(at);
        (age_s, beginning.unwrap())
    };
    let another_boot = CheckpointFile {
        boot_id: "another".to_owned(),
        ..record.clone()
    };
    let back = resumed(another_boot, 40, wall.saturating_sub(Duration::from_secs(1)));
    assert_eq!(back, (0, Beginning::ClockWentBack));
    let late = resumed(record.clone(), 400, wall + Duration::from_secs(50));
    assert_eq!(late, (0, Beginning::AwayTooLong), "20 frames of a second");
    let silent = CheckpointFile {
        began: None,
        ..record
    };
    let (age_s, why) = resumed(silent, 212, wall + Duration::from_secs(3));
    assert_eq!(why, Beginning::NotRecorded);
    assert!(
        (13..=45).contains(&age_s),
        "at least as old as what it remembers: {age_s} s"
    );
}

#[test]
fn nothing_is_saved_before_the_first_sample() {
    assert_eq!(decider(Origin::Ebpf).record(Duration::from_secs(1)), None);
}

#[test]
fn a_brake_is_saved_at_once() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    decider.has_more_to_save();
    let memory_pressure = node_oom();
    decider.observe(sample(201, 400));
    assert!(!decider.has_more_to_save());
    decider.observe(Sample {
        memory_pressure,
        ..sample(202, 400)
    });
    assert!(decider.has_more_to_save());
}

/// A Node of as many CPUs as are online is about this machine, though pods may use fewer.
#[test]
fn isolated_cpus_are_in_the_nodes_capacity_and_not_in_the_estimators() {
    let mut decider = decider_with_view();
    for quarter in 41..=80 {
        let mut sample = Sample {
            pods: (quarter % 4 == 0).then(|| used(400)),
            ..sample(quarter, 400)
        };
        let poll = sample.poll.as_mut().unwrap();
        (poll.cpus, poll.shared_cpus) = (3, 3);
        decider.observe(sample);
    }
    let hint = decider.report().unwrap();
    assert_eq!(hint.sight, AgentMode::Full);
    let cpu = hint.resources.cpu;
    assert_eq!((cpu.capacity, cpu.isolated), (4000, 1000));
    let estimate = decider.inputs.estimates().cpu;
    assert_eq!((estimate.capacity, estimate.slack.safe), (3000, 2700));
}

#[test]
fn procfs_without_pressure_is_not_amplified() {
    let ratio = |from: u64, has_pressure: bool| {
        let mut decider = decider(Origin::Procfs);
        decider.direct(pods(1));
        for quarter in 41..=200 {
            let mut sample = Sample {
                pods: (quarter % 4 == 0).then(|| used(400)),
                ..sample(quarter, 400)
            };
            sample.poll.as_mut().unwrap().origin = Origin::Procfs;
            if quarter >= from && !has_pressure {
                sample.cpu_pressure = None;
            }
            decider.observe(sample);
        }
        let cpu = decider.report().unwrap().resources.cpu;
        (cpu.published.0, cpu.reasons.contains(&"no-brake".to_owned()))
    };
    assert_eq!(ratio(0, true), (150, false));
    assert_eq!(ratio(0, false), (100, true), "a kernel with psi=0");
    assert_eq!(ratio(195, false), (100, true), "it was there until a moment ago");
}

/// Like [`decider_with_view`], but memory may be amplified too.
fn decider_that_raises_memory() -> Decider {
    let mut decider = decider(Origin::Ebpf);
    let Directive::Pods(mut view) = pods(1) else {
        unreachable!("they are pods");
    };
    view.view.bounds.memory.max = Cents(200);
    decider.direct(Directive::Pods(view));
    decider
}

#[test]
fn nothing_rises_while_the_inputs_of_a_brake_cannot_be_read() {
    // Which of CPU and memory rise while this reading fails.
    let risen = |reading: Option<GatheredSignal>| {
        let mut decider = decider_that_raises_memory();
        run(&mut decider, 10..14, 400);
        let published = |decider: &Decider| decider.inputs.estimates().map(|_, estimate| estimate.published);
        let before = published(&decider);
        for quarter in 57..=200 {
            decider.observe(Sample {
                pods: (quarter % 4 == 0).then(|| used(400)),
                failing: reading.into_iter().collect(),
                ..sample(quarter, 400)
            });
        }
        let after = published(&decider);
        (after.cpu > before.cpu, after.memory > before.memory)
    };
    assert_eq!(risen(None), (true, true));
    // Without /proc/stat no frame counts, for memory as for CPU.
    for reading in [
        GatheredSignal::Pods,
        GatheredSignal::Cpusets,
        GatheredSignal::Stat,
    ] {
        assert_eq!(risen(Some(reading)), (false, false), "{reading:?}");
    }
    for reading in [GatheredSignal::Cpu, GatheredSignal::CpuPressure] {
        assert_eq!(risen(Some(reading)), (false, true), "{reading:?}");
    }
    for reading in [
        GatheredSignal::Memory,
        GatheredSignal::Vmstat,
        GatheredSignal::MemoryPressure,
        GatheredSignal::KubepodsPressure,
        GatheredSignal::LimitEvents,
        GatheredSignal::Events,
    ] {
        assert_eq!(risen(Some(reading)), (true, false), "{reading:?}");
    }
}

/// Without the files that distinguish the machine's shortage from that of a pod at its limit, pressure counts for
/// both.
#[test]
fn memory_pressure_of_unknown_origin_brakes() {
    let braked = |reading: Option<GatheredSignal>| {
        let mut decider = decider_that_raises_memory();
        run(&mut decider, 10..14, 400);
        for quarter in 57..=72 {
            let mut sample = sample(quarter, 400);
            sample.failing = reading.into_iter().collect();
            // A tenth of the time.
            sample.memory_pressure.node = Some(Psi {
                some_us: quarter * 25_000,
                full_us: 0,
            });
            decider.observe(sample);
        }
        decider.inputs.estimates().memory.brake
    };
    assert_eq!(braked(None), Brake::Off, "a pod at its own limit");
    assert_eq!(braked(Some(GatheredSignal::Vmstat)), Brake::Shed);
    assert_eq!(braked(Some(GatheredSignal::LimitEvents)), Brake::Shed);
}

#[test]
fn a_pressure_total_that_goes_back_raises_nothing() {
    // Which of CPU and memory rise when both pressures are these, by quarter of a second.
    let risen = |psi: fn(u64) -> Option<Psi>| {
        let mut decider = decider_that_raises_memory();
        run(&mut decider, 10..14, 400);
        let published = |decider: &Decider| decider.inputs.estimates().map(|_, estimate| estimate.published);
        let before = published(&decider);
        for quarter in 57..=200 {
            let mut sample = Sample {
                pods: (quarter % 4 == 0).then(|| used(400)),
                cpu_pressure: psi(quarter),
                ..sample(quarter, 400)
            };
            sample.memory_pressure.node = psi(quarter);
            decider.observe(sample);
        }
        let after = published(&decider);
        (after.cpu > before.cpu, after.memory > before.memory)
    };
    assert_eq!(risen(|_| Some(Psi::default())), (true, true));
    assert_eq!(
        risen(|quarter| Some(Psi {
            some_us: 1_000 - quarter,
            full_us: 0
        })),
        (false, false),
        "it goes back"
    );
}

/// Twelve full CPUs of sixteen may be all that pods share.
#[test]
fn pressure_is_used_while_the_shared_cpus_are_unknown() {
    let levels = |knows_shared_cpus| {
        let mut decider = decider_with_view();
        run(&mut decider, 10..30, 400);
        let mut levels = Vec::new();
        for quarter in 121..=132 {
            decider.observe(Sample {
                cpu_pressure: Some(Psi {
                    some_us: quarter * 150_000,
                    full_us: 0,
                }),
                knows_shared_cpus,
                ..sample(quarter, 3000)
            });
            // A period ends with the first quarter of each second.
            if quarter % 4 == 1 && quarter > 121 {
                levels.push(decider.inputs.estimates().cpu.brake);
            }
        }
        levels
    };
    assert_eq!(levels(true), [Brake::Off; 2]);
    assert_eq!(levels(false), [Brake::Shed, Brake::Stop]);
}

/// A tenant whose tasks switch so fast that wake-ups are given up, on a kernel that keeps no pressure.
#[test]
fn shedding_waits_without_cpu_pressure_keeps_the_brake() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..30, 400);
    let mut levels = Vec::new();
    for quarter in 121..=136 {
        let sample = Sample {
            probe_state: Some(ProbeState::counting(Shed::WakeUps)),
            cpu_pressure: None,
            ..sample(quarter, 4000)
        };
        decider.observe(sample);
        // A period ends with the first quarter of each second.
        if quarter % 4 == 1 && quarter > 121 {
            levels.push(decider.inputs.estimates().cpu.brake);
        }
    }
    assert_eq!(levels, [Brake::Hold, Brake::Shed, Brake::Stop]);
}

/// A paused machine: monotonic time jumps by a minute between two samples, without measurements in between.
#[test]
fn a_minute_without_samples_releases_no_brake_and_raises_nothing() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    let before = decider.inputs.estimates().cpu.published;
    for quarter in 201..=205 {
        decider.observe(Sample {
            cpu_pressure: None,
            ..sample(quarter, 4000)
        });
    }
    assert_eq!(decider.inputs.estimates().cpu.brake, Brake::Hold);
    // The demo lets go of a hold after two seconds.
    let resumed = 205 + 240;
    decider.observe(sample(resumed, 400));
    decider.observe(sample(resumed + 1, 400));
    let cpu = decider.inputs.estimates().cpu;
    assert_eq!(cpu.brake, Brake::Hold);
    assert!(cpu.published <= before);
    for quarter in 2..=16 {
        decider.observe(sample(resumed + quarter, 400));
    }
    assert_eq!(
        decider.inputs.estimates().cpu.brake,
        Brake::Off,
        "clean for its time"
    );
}

/// Samples of these quarters of a second whose CPU counters could not be read.
fn run_unpolled(decider: &mut Decider, quarters: std::ops::RangeInclusive<u64>) {
    for quarter in quarters {
        decider.observe(Sample {
            poll: None,
            failing: [GatheredSignal::Cpu].into(),
            ..sample(quarter, 0)
        });
    }
}

#[test]
fn cpu_counters_that_cannot_be_read_end_the_ratio_at_one() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    assert_eq!(decider.inputs.estimates().cpu.published, Cents(170));
    run_unpolled(&mut decider, 201..=204);
    run_unpolled(&mut decider, 205..=220);
    let cpu = decider.inputs.estimates().cpu;
    assert_eq!(cpu.published, Cents(100), "nothing would brake it");
    assert!(cpu.reasons.contains(&Reason::NoBrake), "{:?}", cpu.reasons);
    // A readable signal lets the ratio rise by the usual steps.
    let rising = run(&mut decider, 55..57, 400);
    assert!(rising.iter().all(|ratio| *ratio <= 110), "{rising:?}");
}

#[test]
fn a_brake_outlasts_time_in_which_cpu_counters_cannot_be_read() {
    let mut decider = decider_with_view();
    run(&mut decider, 10..50, 400);
    for quarter in 201..=205 {
        decider.observe(Sample {
            cpu_pressure: None,
            ..sample(quarter, 4000)
        });
    }
    assert_eq!(decider.inputs.estimates().cpu.brake, Brake::Hold);
    // The demo lets go of a hold after two seconds.
    run_unpolled(&mut decider, 206..=260);
    assert_eq!(decider.inputs.estimates().cpu.brake, Brake::Hold);
    for quarter in 261..=275 {
        decider.observe(sample(quarter, 400));
    }
    assert_eq!(
        decider.inputs.estimates().cpu.brake,
        Brake::Off,
        "clean for its time"
    );
}

#[test]
fn bound_pods_that_run_outside_their_cgroups_are_reported() {
    for (is_bound, empty, expected) in [(true, "p1", true), (true, "gone", false), (false, "p1", false)] {
        let mut decider = decider(Origin::Ebpf);
        if is_bound {
            decider.direct(pods(1));
        }
        for seconds in (15..=90).step_by(15) {
            decider.observe(Sample {
                empty_pods: Some([empty.to_owned()].into()),
                ..sample(seconds * 4, 100)
            });
        }
        assert_eq!(
            decider.driver_mismatch.is_reported, expected,
            "{is_bound} {empty}"
        );
    }
}
