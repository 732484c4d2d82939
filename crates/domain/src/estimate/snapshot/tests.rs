//! Tests of resumed estimators: on the same boot, on another boot, and from impossible snapshots.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    estimate::{CpuPressure, Frame, MemoryPressure, PodRequest, PodUse, Pressure, Profile, View, Visibility},
    policy::Bounds,
    ratio::Cents,
};

const TIMING: Timing = Profile::Production.timing();
const HOUR: u64 = 12;

fn view(uids: &[&str]) -> View {
    let request = PodRequest {
        requests: PerResource {
            cpu: 13_000,
            memory: 1 << 30,
        },
        ..PodRequest::default()
    };
    let bounds = Bounds {
        min: Cents(50),
        max: Cents(200),
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
        pods: uids.iter().map(|uid| ((*uid).to_owned(), request)).collect(),
        bounds: PerResource {
            cpu: bounds,
            memory: bounds,
        },
        target_ppm: PerResource {
            cpu: 900_000,
            memory: 900_000,
        },
        admitted: PerResource::default(),
    }
}

fn frame(index: u64, uids: &[&str]) -> Frame {
    let used = PodUse {
        low: PerResource {
            cpu: 4000,
            memory: 1 << 20,
        },
        high: PerResource {
            cpu: 5000,
            memory: 1 << 21,
        },
    };
    Frame {
        index,
        is_valid: true,
        peak: PerResource {
            cpu: 12_000,
            memory: 1 << 24,
        },
        pods: uids.iter().map(|uid| ((*uid).to_owned(), used)).collect(),
        ..Frame::default()
    }
}

/// An estimator that has tracked two pods for more than a day; its last frame is number 1000.
fn seasoned() -> Estimator {
    let mut estimator = Estimator::new(TIMING);
    estimator.set_view(view(&["a", "b"]));
    for index in 601..=1000 {
        estimator.end_frame(&frame(index, &["a", "b"]));
    }
    estimator
}

const SAVED: Duration = Duration::from_secs(300_300);

fn resumed(frame: u64, boot: Boot) -> Estimator {
    let now = match boot {
        Boot::Same => SAVED + Duration::from_secs(1),
        Boot::Other { .. } => Duration::from_secs(40),
    };
    Estimator::resume(TIMING, seasoned().snapshot(SAVED), Lapse { frame, now, boot }).unwrap()
}

fn after(gap: u64) -> Boot {
    let gap = Some(Duration::from_secs(gap));
    Boot::Other { gap }
}

#[test]
fn the_same_boot_resumes_everything() {
    let mut before = seasoned();
    let mut after = resumed(1001, Boot::Same);
    after.set_view(view(&["a", "b"]));
    assert_eq!(after.estimates(), before.estimates());
    assert_eq!(after.trust(), before.trust());
    assert!(after.estimates().cpu.published > Cents::ONE);
    for estimator in [&mut before, &mut after] {
        estimator.end_frame(&frame(1001, &["a"]));
        estimator.set_view(view(&["a"]));
        estimator.end_frame(&frame(1002, &["a"]));
    }
    assert_eq!(after.estimates(), before.estimates());
    assert_eq!(
        after.estimates().cpu.slack.peak,
        12_000,
        "the last frame excludes the departed pod"
    );
}

/// The lower bound of a disturbed frame keeps limiting the peak, on this boot and the next.
#[test]
fn bounds_of_invalid_frames_survive_next_to_the_snapshot() {
    let mut before = seasoned();
    before.end_frame(&Frame {
        is_valid: false,
        is_bound: true,
        peak: PerResource {
            cpu: 64_000,
            memory: 1 << 36,
        },
        ..frame(1001, &["a", "b"])
    });
    let snapshot = before.snapshot(SAVED);
    let json = serde_json::to_string(&snapshot).unwrap();
    let without: Snapshot = serde_json::from_str(&json).unwrap();
    assert_eq!(without.bounds(), PerResource::default());
    let whole = without.clone().with_bounds(&snapshot.bounds());
    assert_eq!(whole, snapshot);
    for (frame, boot) in [(1002, Boot::Same), (40, after(3600))] {
        let lapse = Lapse {
            frame,
            now: SAVED,
            boot,
        };
        let mut resumed = Estimator::resume(TIMING, whole.clone(), lapse).unwrap();
        resumed.set_view(view(&["a", "b"]));
        let peaks = resumed.estimates().map(|_, estimate| estimate.slack.peak);
        assert_eq!((peaks.cpu, peaks.memory), (64_000, 1 << 36), "{boot:?}");
    }
    // The frame before it is valid, and the one after it is in the future.
    let (spoiled, _) = snapshot.bounds().cpu[0];
    let forged = PerResource::from_fn(|_| vec![(spoiled - 1, u64::MAX), (spoiled + 1, u64::MAX)]);
    assert_eq!(without.clone().with_bounds(&forged), without);
}

#[test]
fn missed_frames_lower_the_coverage() {
    let mut estimator = resumed(1145, Boot::Same);
    estimator.set_view(view(&["a", "b"]));
    let before = estimator.estimates().cpu;
    estimator.end_frame(&frame(1145, &["a", "b"]));
    let cpu = estimator.estimates().cpu;
    assert_eq!(before.coverage_ppm, 1_000_000, "from the last known frame");
    assert_eq!(cpu.coverage_ppm, 144 * 1_000_000 / 288);
}

#[test]
fn no_pod_departs_before_the_server_sends_its_list() {
    let mut estimator = resumed(1001, Boot::Same);
    estimator.end_frame(&frame(1001, &[]));
    estimator.set_view(view(&["a", "b"]));
    assert!(estimator.trust().iter().all(|trust| trust.ppm.cpu == 1_000_000));
}

#[test]
fn another_boot_keeps_frames_and_trust_and_subtracts_departed_pods() {
    // Just booted: the machine was off for two hours.
    let mut estimator = resumed(0, after(2 * 3600));
    let before = seasoned().estimates().cpu;
    estimator.set_view(view(&["a"]));
    let mut first = frame(0, &["a"]);
    first.is_valid = false;
    estimator.end_frame(&first);
    let cpu = estimator.estimates().cpu;
    let warm = before.slack.warm_requests / 2;
    assert!(warm > 0 && cpu.slack.warm_requests == warm, "{before:?} {cpu:?}");
    assert_eq!(cpu.coverage_ppm, ppm_of(288 - 2 * HOUR - 1));
    assert_eq!(cpu.slack.peak, 8000, "pod b is in no frame any more");
    assert_eq!(cpu.peak.unwrap().frames_ago, 2 * HOUR + 1);
}

fn ppm_of(valid: u64) -> u32 {
    u32::try_from(valid * 1_000_000 / 288).unwrap()
}

#[test]
fn a_clock_that_went_back_or_a_day_off_drops_all_frames() {
    for (boot, uptime) in [
        (Boot::Other { gap: None }, 7),
        (after(24 * 3600), 0),
        (after(u64::MAX), 9),
    ] {
        let mut estimator = resumed(uptime, boot);
        estimator.set_view(view(&["a", "b"]));
        estimator.end_frame(&frame(uptime, &["a", "b"]));
        let cpu = estimator.estimates().cpu;
        assert_eq!(cpu.coverage_ppm, ppm_of(1), "{boot:?}");
        assert_eq!(cpu.slack.warm_requests, 0);
    }
}

#[test]
fn the_calibrated_margin_survives_a_restart() {
    let mut estimator = seasoned();
    // More than raw allocatable, so that amplification is in use.
    let pods = ["a", "b", "c"];
    estimator.set_view(view(&pods));
    estimator.end_frame(&frame(1001, &pods));
    let mut over = frame(1002, &pods);
    over.peak.cpu = 32_001;
    estimator.end_frame(&over);
    for index in 1003..=1300 {
        estimator.end_frame(&frame(index, &pods));
    }
    let margin = estimator.estimates().cpu.accumulator_ppm;
    assert_eq!(margin, 99_000);
    for (frame_now, boot) in [(1301, Boot::Same), (3, after(60)), (3, Boot::Other { gap: None })] {
        let lapse = Lapse {
            frame: frame_now,
            now: SAVED,
            boot,
        };
        let resumed = Estimator::resume(TIMING, estimator.snapshot(SAVED), lapse).unwrap();
        assert_eq!(resumed.estimates().cpu.accumulator_ppm, margin, "{boot:?}");
    }
}

#[test]
fn brakes_keep_their_ends_across_a_restart() {
    let mut estimator = seasoned();
    let pressure = |node_ooms| Pressure {
        visibility: Visibility::ALL,
        cpu: CpuPressure {
            sigma8_ppm: 0,
            runq_p99_us: 0,
            ..CpuPressure::default()
        },
        memory: MemoryPressure {
            node_ooms,
            ..MemoryPressure::default()
        },
    };
    estimator.end_brake_period(&pressure(1), SAVED);
    let snapshot = estimator.snapshot(SAVED + Duration::from_secs(600));
    // 50 of 60 minutes are left, and the machine is off for ten of them.
    let cases = [
        (Boot::Same, SAVED + Duration::from_secs(1200), 2400),
        (after(600), Duration::from_secs(40), 2400),
        (Boot::Other { gap: None }, Duration::from_secs(40), 3000),
    ];
    for (boot, now, left) in cases {
        let lapse = Lapse {
            frame: 1001,
            now,
            boot,
        };
        let mut resumed = Estimator::resume(TIMING, snapshot.clone(), lapse).unwrap();
        let mut at = |seconds| {
            resumed.end_brake_period(&pressure(0), now + Duration::from_secs(seconds));
            let estimates = resumed.estimates();
            (estimates.memory.brake, estimates.cpu.brake)
        };
        assert_eq!(at(left - 1), (Brake::Stop, Brake::Hold), "{boot:?}");
        assert_eq!(at(left), (Brake::Off, Brake::Off), "{boot:?}");
    }
}

#[test]
fn a_resumed_brake_has_its_own_reason() {
    let mut estimator = seasoned();
    let pressure = Pressure {
        visibility: Visibility::ALL,
        cpu: CpuPressure {
            sigma8_ppm: 50_000,
            runq_p99_us: 0,
            ..CpuPressure::default()
        },
        memory: MemoryPressure::default(),
    };
    estimator.end_brake_period(&pressure, SAVED);
    let lapse = Lapse {
        frame: 1001,
        now: SAVED,
        boot: Boot::Same,
    };
    let mut resumed = Estimator::resume(TIMING, estimator.snapshot(SAVED), lapse).unwrap();
    resumed.set_view(view(&["a", "b"]));
    assert_eq!(resumed.estimates().cpu.reasons[0].code(), "brake-resumed");
}

#[test]
fn impossible_snapshots_are_rejected() {
    let lapse = |frame, boot| Lapse {
        frame,
        now: SAVED,
        boot,
    };
    let refusal =
        |timing, snapshot: &Snapshot, lapse| Estimator::resume(timing, snapshot.clone(), lapse).unwrap_err();
    let good = seasoned().snapshot(SAVED);
    assert_eq!(
        refusal(Profile::Demo.timing(), &good, lapse(1001, Boot::Same)),
        ResumeError::Frames
    );
    assert_eq!(
        refusal(TIMING, &good, lapse(900, Boot::Same)),
        ResumeError::Frames,
        "from the future"
    );
    let mut swapped = good.clone();
    swapped.pods = Pods::default();
    swapped.history.cpu = History::new(7);
    assert_eq!(
        refusal(TIMING, &swapped, lapse(1001, after(1))),
        ResumeError::Frames
    );
    let mut raised = good.clone();
    for _ in 0..60 {
        raised.outcomes.cpu.decide(1, true);
    }
    let json = serde_json::to_string(&raised).unwrap();
    let json = json.replacen("\"accumulator_ppm\":100000", "\"accumulator_ppm\":99999", 1);
    let forged: Snapshot = serde_json::from_str(&json).unwrap();
    assert_eq!(
        refusal(TIMING, &forged, lapse(1001, Boot::Same)),
        ResumeError::Outcomes
    );
    let json = serde_json::to_string(&good).unwrap();
    let json = json.replacen("\"birth\":889", "\"birth\":88900", 1);
    let forged: Snapshot = serde_json::from_str(&json).unwrap();
    assert_eq!(
        refusal(TIMING, &forged, lapse(1001, Boot::Same)),
        ResumeError::Pods
    );
}

/// Section 2.9, at 512 pods: the pods' rings take 1,179,648 bytes, the whole estimator well below 2.3 MiB.
#[test]
fn the_state_is_bounded_at_512_pods() {
    let uids: Vec<String> = (0..700)
        .map(|pod| format!("0b6e3a54-9f5e-4b8e-8d4a-{pod:012}"))
        .collect();
    let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
    let mut estimator = Estimator::new(TIMING);
    estimator.set_view(view(&uids));
    for index in 0..600 {
        let mut frame = frame(index, &uids);
        frame.peak = PerResource {
            cpu: u64::MAX,
            memory: u64::MAX,
        };
        for used in frame.pods.values_mut() {
            used.low = PerResource {
                cpu: u64::MAX,
                memory: u64::MAX,
            };
        }
        estimator.end_frame(&frame);
    }
    let snapshot = estimator.snapshot(SAVED);
    let rings: BTreeMap<_, _> = snapshot.pods.ring_bytes();
    assert_eq!((rings.len(), rings.values().sum::<usize>()), (512, 1_179_648));
    assert!(
        snapshot.pods.scalar_bytes() <= 132 << 10,
        "{}",
        snapshot.pods.scalar_bytes()
    );
    for resource in Resource::ALL {
        assert!(snapshot.history.get(resource).bytes() <= 16 << 10);
        assert!(snapshot.outcomes.get(resource).bytes() <= 1024);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn resumed_ratios_stay_within_their_bounds(
        frame_now in prop_oneof![0..2000_u64, any::<u64>()],
        now in any::<u32>(),
        boot in prop_oneof![
            Just(Boot::Same),
            prop::option::of(any::<u64>()).prop_map(|gap| Boot::Other { gap: gap.map(Duration::from_secs) }),
        ],
    ) {
        let small = Timing { ring_frames: 8, ..TIMING };
        let mut estimator = Estimator::new(small);
        estimator.set_view(view(&["a"]));
        for index in 10..25 {
            estimator.end_frame(&frame(index, &["a"]));
        }
        let lapse = Lapse { frame: frame_now, now: Duration::from_secs(now.into()), boot };
        if let Ok(mut resumed) = Estimator::resume(small, estimator.snapshot(SAVED), lapse) {
            resumed.set_view(view(&["a"]));
            resumed.end_frame(&frame(frame_now, &["a"]));
            let cpu = resumed.estimates().cpu;
            prop_assert!((Cents(50)..=Cents(200)).contains(&cpu.published));
        } else {
            prop_assert!(boot == Boot::Same && frame_now < 24);
        }
    }
}
