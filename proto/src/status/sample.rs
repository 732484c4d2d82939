//! [`status`]: a status for tests with a value in every field, and a different number in each figure.

use super::{
    AckStatus, CalibrationStatus, HistoryStatus, Measured, PeakStatus, PodsStatus, ProgramStatus,
    ResourceStatus, SignalStatus, Status, StreamState, StreamStatus,
};

fn measured() -> Measured {
    // Each figure has a different number, so that a mix-up is noticed.
    let zeros = serde_json::to_value(Measured::default()).expect("a document");
    let numbered = zeros.as_object().expect("an object").keys().zip(1_u64..);
    let numbered = numbered.map(|(name, number)| (name.clone(), number.into()));
    serde_json::from_value(serde_json::Value::Object(numbered.collect())).expect("figures")
}

/// Status with a value in every field.
pub(crate) fn status() -> Status {
    Status {
        node: text("n1"),
        node_uid: text("u1"),
        boot_id: text("b1"),
        version: text("1.2.3"),
        mode: text("FULL"),
        mode_sentence: text("all is seen"),
        history: HistoryStatus {
            age_s: 1,
            beginning: text("nothing-saved"),
            why: text("a new node"),
        },
        timing: text("production"),
        source: text("ebpf"),
        programs: vec![ProgramStatus {
            hook: text("sched_switch"),
            health: text("failed"),
            flavour: Some(text("raw")),
            reason: Some(text("refused")),
            runs: 2,
            run_time_ns: 3,
            verifier_log: Some(text("line 1")),
        }],
        measured: Some(measured()),
        resources: vec![resource()],
        pods: PodsStatus {
            tracked: 22,
            untracked: 23,
            unreadable: 24,
        },
        seq: 25,
        generation: 26,
        streams: vec![stream()],
        signals: vec![SignalStatus {
            name: text("sigma8"),
            source: text("sched_switch"),
            health: text("ok"),
            unit: text("ppm"),
            value: Some(28),
            missing: Some(text("something")),
        }],
    }
}

fn resource() -> ResourceStatus {
    ResourceStatus {
        name: text("memory"),
        unit: text("bytes"),
        capacity: 4,
        raw: 5,
        safe: 6,
        peak: 7,
        history: Some(PeakStatus {
            highest: 8,
            frames_ago: 9,
            last: 10,
            climb: 11,
        }),
        predicted_peak: 12,
        warm_requests: 13,
        bound: 14,
        slack: -15,
        target_cents: 16,
        published_cents: 17,
        coverage_ppm: 18,
        confidence_ppm: 19,
        margin_ppm: 20,
        calibration: CalibrationStatus {
            accumulator_ppm: 21,
            is_latched: true,
        },
        brake: 3,
        reasons: vec![text("slack")],
    }
}

fn stream() -> StreamStatus {
    StreamStatus {
        peer: "10.0.0.1:9444".parse().expect("an address"),
        state: StreamState::Waiting,
        is_primary: true,
        last_ack: Some(AckStatus {
            seq: 27,
            verdict: text("rejected"),
            reason: text("old"),
        }),
        last_problem: Some(text("gone")),
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}
