//! Every metric of the agent: the only place that spells a name, its labels and its buckets.

use headroom_domain::{hint::Sight, resource::Resource};
use headroom_kit::metric::{Counter, Gauge, Metric, Unit};

use crate::status::{PodsStatus, Status};

/// How much the agent sees.
pub static MODE: Gauge<1> = Gauge::new(
    "headroom_agent_mode",
    Unit::Count,
    &["mode"],
    "1 for the mode the agent is in (FULL, FULL_SHED, PROC or BLIND), 0 for the others.",
);

/// Which hooks of the kernel programs are attached.
pub static HOOKS: Gauge<1> = Gauge::new(
    "headroom_agent_hooks",
    Unit::Count,
    &["health"],
    "Hooks of the kernel programs by what became of them: ok, unsupported or failed. Zero for all on procfs alone.",
);

/// Busy CPUs of the node.
pub static CPU_BUSY: Gauge = Gauge::new(
    "headroom_agent_cpu_busy_cores",
    Unit::Cores,
    &[],
    "CPUs that were busy in the last second, stolen time included.",
);

/// CPU time stolen by the hypervisor.
pub static CPU_STEAL: Gauge = Gauge::new(
    "headroom_agent_cpu_steal_cores",
    Unit::Cores,
    &[],
    "CPUs the hypervisor gave to somebody else in the last second while the node wanted them.",
);

/// Windows without an idle CPU.
pub static SIGMA8: Gauge = Gauge::new(
    "headroom_agent_saturated_windows_ratio",
    Unit::Ratio,
    &[],
    "Share of 8.39 ms windows in which no CPU was idle, of the last brake period.",
);

/// Memory in real use.
pub static MEMORY_USED: Gauge = Gauge::new(
    "headroom_agent_memory_used_bytes",
    Unit::Bytes,
    &[],
    "Memory of the node in real use, half of the active page cache included.",
);

/// The ratio that is published.
pub static PUBLISHED: Gauge<1> = Gauge::new(
    "headroom_agent_published_ratio",
    Unit::Ratio,
    &["resource"],
    "The ratio of allocatable to raw allocatable that the agent publishes.",
);

/// The brake in force.
pub static BRAKE: Gauge<1> = Gauge::new(
    "headroom_agent_brake_level",
    Unit::Count,
    &["resource"],
    "Level of the brake in force: 0 none, 1 hold, 2 shed, 3 stop.",
);

/// Share of the history that counts.
pub static COVERAGE: Gauge<1> = Gauge::new(
    "headroom_agent_coverage_ratio",
    Unit::Ratio,
    &["resource"],
    "Share of the frames of the history that are valid.",
);

/// Frames that ended.
pub static FRAMES: Counter<1> = Counter::new(
    "headroom_agent_frames_total",
    Unit::Count,
    &["result"],
    "Frames that ended, by whether they were valid.",
);

/// Windows that were lost.
pub static LOST_WINDOWS: Counter = Counter::new(
    "headroom_agent_lost_windows_total",
    Unit::Count,
    &[],
    "Windows of 8.39 ms that were overwritten before the agent could read them.",
);

/// Readings that failed.
pub static SAMPLE_ERRORS: Counter<1> = Counter::new(
    "headroom_agent_sample_errors_total",
    Unit::Count,
    &["signal"],
    "Readings that failed, by signal: cpu, memory or pods.",
);

/// Pods with a cgroup.
pub static PODS: Gauge<1> = Gauge::new(
    "headroom_agent_pods",
    Unit::Count,
    &["state"],
    "Pods by cgroup: tracked, untracked (beyond the limit) or unreadable (no UID in the name).",
);

/// Reports that were made.
pub static REPORTS: Counter = Counter::new(
    "headroom_agent_reports_total",
    Unit::Count,
    &[],
    "Reports that were made; each stream sends the newest.",
);

/// Streams to hint servers.
pub static STREAMS: Gauge = Gauge::new(
    "headroom_agent_streams",
    Unit::Count,
    &[],
    "Streams to hint servers that are open.",
);

/// Streams that were opened and lost.
pub static CONNECTS: Counter<1> = Counter::new(
    "headroom_agent_stream_events_total",
    Unit::Count,
    &["event"],
    "Streams to hint servers that were opened or lost; failed attempts count as lost.",
);

/// What hint servers sent.
pub static DIRECTIVES: Counter<1> = Counter::new(
    "headroom_agent_directives_total",
    Unit::Count,
    &["kind"],
    "Messages of hint servers: ack, pods, policy, or invalid.",
);

/// What hint servers answered reports with.
pub static ACKS: Counter<1> = Counter::new(
    "headroom_agent_acks_total",
    Unit::Count,
    &["verdict"],
    "Answers of hint servers to reports: accepted, stale, rejected or unspecified.",
);

/// Everything above.
pub static METRICS: &[&Metric] = &[
    MODE.metric(),
    HOOKS.metric(),
    CPU_BUSY.metric(),
    CPU_STEAL.metric(),
    SIGMA8.metric(),
    MEMORY_USED.metric(),
    PUBLISHED.metric(),
    BRAKE.metric(),
    COVERAGE.metric(),
    FRAMES.metric(),
    LOST_WINDOWS.metric(),
    SAMPLE_ERRORS.metric(),
    PODS.metric(),
    REPORTS.metric(),
    STREAMS.metric(),
    CONNECTS.metric(),
    DIRECTIVES.metric(),
    ACKS.metric(),
];

/// Sets the gauges to what `/status` says.
#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a float; 53 bits are more than is measured"
)]
pub fn show(status: &Status) {
    for mode in Sight::ALL {
        MODE.with([mode.name()])
            .set(f64::from(u8::from(status.mode == mode.name())));
    }
    for health in ["ok", "unsupported", "failed"] {
        let hooks = status.programs.iter().filter(|program| program.health == health);
        HOOKS.with([health]).set(hooks.count() as f64);
    }
    if let Some(measured) = &status.measured {
        CPU_BUSY.with([]).set(measured.cpu_busy_milli as f64 / 1e3);
        CPU_STEAL.with([]).set(measured.steal_milli as f64 / 1e3);
        SIGMA8.with([]).set(f64::from(measured.sigma8_ppm) / 1e6);
        MEMORY_USED.with([]).set(measured.mem_used_bytes as f64);
    }
    for resource in Resource::ALL {
        if let Some(part) = status.resource(resource) {
            PUBLISHED
                .with([resource.name()])
                .set(f64::from(part.published_cents) / 1e2);
            BRAKE.with([resource.name()]).set(f64::from(part.brake));
            COVERAGE
                .with([resource.name()])
                .set(f64::from(part.coverage_ppm) / 1e6);
        }
    }
    let PodsStatus {
        tracked,
        untracked,
        unreadable,
    } = status.pods;
    for (state, pods) in [
        ("tracked", tracked),
        ("untracked", untracked),
        ("unreadable", unreadable),
    ] {
        PODS.with([state]).set(pods as f64);
    }
}

#[cfg(test)]
mod tests {
    use headroom_kit::metric::Catalogue;

    use super::*;

    #[test]
    fn names_follow_the_rules() {
        let catalogue = Catalogue::new(&[METRICS]).unwrap();
        assert!(
            METRICS
                .iter()
                .all(|metric| metric.name.starts_with("headroom_agent_"))
        );
        assert!(
            catalogue.metrics().count() > METRICS.len(),
            "and every process has some more"
        );
    }
}
