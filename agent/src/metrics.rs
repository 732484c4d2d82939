//! Every metric of the agent. Name, labels and buckets of a metric are written only in this module and its submodules, and
//! in `kernel::hooks` for the metrics of hooks.

mod checkpoint;
mod histograms;

use headroom_kit::metric::{Counter, Gauge, Metric, Unit};

pub use self::{
    checkpoint::CHECKPOINTS,
    histograms::{BLOCK_USE, RUNQ_WAIT, WINDOW_USE, seconds, share},
};
use crate::kernel::hooks;

/// The metrics of the agent.
pub static LISTS: [&[&Metric]; 4] = [METRICS, checkpoint::METRICS, histograms::METRICS, hooks::METRICS];

headroom_kit::metrics! {
    pub static MODE: Gauge<1> = Gauge::new(
        "headroom_agent_mode",
        Unit::Count,
        &["mode"],
        "1 for the current mode of the agent (FULL, FULL_SHED, PROC or BLIND), 0 for the others.",
    );

    pub static HOOKS: Gauge<1> = Gauge::new(
        "headroom_agent_hooks",
        Unit::Count,
        &["health"],
        "Hooks of the kernel programs by health: ok, unsupported or failed. All are zero with --source procfs.",
    );

    pub static CPU_BUSY: Gauge = Gauge::new(
        "headroom_agent_cpu_busy_cores",
        Unit::Cores,
        &[],
        "CPUs that were busy in the last second, stolen time included.",
    );

    pub static CPU_STEAL: Gauge = Gauge::new(
        "headroom_agent_cpu_steal_cores",
        Unit::Cores,
        &[],
        "CPUs that the hypervisor gave to other guests in the last second while the node wanted them.",
    );

    pub static CPU_DEMAND: Gauge = Gauge::new(
        "headroom_agent_cpu_demand_cores",
        Unit::Cores,
        &[],
        "CPUs that were busy in the last second, plus those that tasks waited for while nearly all were busy.",
    );

    pub static EXCLUSIVE_CPUS: Gauge = Gauge::new(
        "headroom_agent_exclusive_cpus_cores",
        Unit::Cores,
        &[],
        "CPUs that single pods hold exclusively.",
    );

    pub static BURST: Gauge = Gauge::new(
        "headroom_agent_burst_ratio",
        Unit::Ratio,
        &[],
        "The busiest 134 ms over the mean, of the last brake period. 0 from procfs.",
    );

    pub static PRESSURE: Gauge<2> = Gauge::new(
        "headroom_agent_pressure_ratio",
        Unit::Ratio,
        &["resource", "kind"],
        "Share of the last brake period in which some or all (full) tasks waited for cpu or memory. Quotas count for cpu.",
    );

    pub static SIGNAL_OK: Gauge<1> = Gauge::new(
        "headroom_agent_signal_ok",
        Unit::Count,
        &["signal"],
        "1 for a signal that works, 0 for one that is missing; kubectl headroom agent signals prints \
         the reason.",
    );

    pub static SWITCHES: Counter = Counter::new(
        "headroom_agent_context_switches_total",
        Unit::Count,
        &[],
        "Context switches that the kernel programs counted.",
    );

    pub static MISSED_SWITCHES: Counter = Counter::new(
        "headroom_agent_missed_switches_total",
        Unit::Count,
        &[],
        "Detected context switches that the kernel did not report.",
    );

    pub static OOM_KILLS: Counter = Counter::new(
        "headroom_agent_oom_kills_total",
        Unit::Count,
        &[],
        "Processes that the OOM killer killed on this machine, at any limit.",
    );

    pub static REFAULTED: Counter = Counter::new(
        "headroom_agent_refaulted_bytes_total",
        Unit::Bytes,
        &[],
        "Pages that were read again soon after they had been reclaimed.",
    );

    pub static SWAPPED_OUT: Counter = Counter::new(
        "headroom_agent_swapped_out_bytes_total",
        Unit::Bytes,
        &[],
        "Pages swapped out.",
    );

    pub static MEMORY_AVAILABLE: Gauge = Gauge::new(
        "headroom_agent_memory_available_bytes",
        Unit::Bytes,
        &[],
        "Memory available without swapping.",
    );

    pub static WORKING_SET: Gauge = Gauge::new(
        "headroom_agent_working_set_bytes",
        Unit::Bytes,
        &[],
        "Memory that all pods need, half of their active page cache included.",
    );

    pub static SIGMA8: Gauge = Gauge::new(
        "headroom_agent_saturated_windows_ratio",
        Unit::Ratio,
        &[],
        "Share of 8.39 ms windows without an idle CPU, in blocks of 134 ms that were at least 95 % \
         busy, of the last brake period.",
    );

    pub static MEMORY_USED: Gauge = Gauge::new(
        "headroom_agent_memory_used_bytes",
        Unit::Bytes,
        &[],
        "Memory of the node in use, half of the active page cache included.",
    );

    pub static PUBLISHED: Gauge<1> = Gauge::new(
        "headroom_agent_published_ratio",
        Unit::Ratio,
        &["resource"],
        "Ratio of allocatable to raw allocatable that the agent publishes.",
    );

    pub static BRAKE: Gauge<1> = Gauge::new(
        "headroom_agent_brake_level",
        Unit::Count,
        &["resource"],
        "Level of the brake in force: 0 none, 1 hold, 2 shed, 3 stop.",
    );

    pub static COVERAGE: Gauge<1> = Gauge::new(
        "headroom_agent_coverage_ratio",
        Unit::Ratio,
        &["resource"],
        "Share of the frames of the history that are valid.",
    );

    pub static FRAMES: Counter<1> = Counter::new(
        "headroom_agent_frames_total",
        Unit::Count,
        &["result"],
        "Ended frames, by validity.",
    );

    pub static LOST_WINDOWS: Counter = Counter::new(
        "headroom_agent_lost_windows_total",
        Unit::Count,
        &[],
        "Windows of 8.39 ms that were overwritten before the agent could read them.",
    );

    pub static SAMPLE_ERRORS: Counter<1> = Counter::new(
        "headroom_agent_sample_errors_total",
        Unit::Count,
        &["signal"],
        "Readings that failed, by signal: cpu, stat, cpu-pressure, memory, vmstat, memory-pressure, kubepods-pressure, limit-events, events, pods, cpusets or plain.",
    );

    pub static PODS: Gauge<1> = Gauge::new(
        "headroom_agent_pods",
        Unit::Count,
        &["state"],
        "Pods by cgroup: tracked, untracked (beyond the limit) or unreadable (no UID in the name).",
    );

    pub static REPORTS: Counter = Counter::new(
        "headroom_agent_reports_total",
        Unit::Count,
        &[],
        "Reports made; each stream sends the newest.",
    );

    pub static STREAMS: Gauge = Gauge::new(
        "headroom_agent_streams",
        Unit::Count,
        &[],
        "Open streams to hint servers.",
    );

    pub static CONNECTS: Counter<1> = Counter::new(
        "headroom_agent_stream_events_total",
        Unit::Count,
        &["event"],
        "Streams to hint servers that were opened or lost; failed attempts count as lost.",
    );

    pub static DIRECTIVES: Counter<1> = Counter::new(
        "headroom_agent_directives_total",
        Unit::Count,
        &["kind"],
        "Messages of hint servers: ack, pods, policy, workloads, or invalid.",
    );

    pub static ACKS: Counter<1> = Counter::new(
        "headroom_agent_acks_total",
        Unit::Count,
        &["verdict"],
        "Answers of hint servers to reports: accepted, stale, rejected or unspecified.",
    );
}

#[cfg(test)]
mod tests {
    use headroom_kit::metric::Catalogue;

    use super::*;

    #[test]
    fn names_follow_the_rules() {
        let catalogue = Catalogue::new(&LISTS).unwrap();
        let own: Vec<_> = LISTS.into_iter().flatten().collect();
        assert!(
            own.iter()
                .all(|metric| metric.name.starts_with("headroom_agent_"))
        );
        assert!(
            catalogue.metrics().count() > own.len(),
            "and every process has some more"
        );
    }
}
