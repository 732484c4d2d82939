//! `Snapshot`: state of the API server's objects and measurements at one time, and its JSON line.

use headroom_domain::resource::PerResource;
use serde::Serialize;

/// State of the demo at one time. CPU in milli-cores, memory in bytes, ratios in cents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Snapshot {
    /// Milliseconds since the Node was first Ready.
    pub(super) at_ms: u64,
    pub(super) node: String,
    pub(super) mode: String,
    /// Source of CPU counters: `ebpf` or `procfs`.
    pub(super) source: String,
    /// Measured CPU use over the agent's last interval, without stolen time.
    pub(super) cpu_used: u64,
    /// Measured CPU use with stolen time, for the detection of saturation.
    pub(super) cpu_busy: u64,
    /// Ground truth over the same interval: CPU time of the root cgroup.
    pub(super) cpu_truth: u64,
    /// CPU use by processes that are not the demo's, over the last second.
    pub(super) cpu_others: u64,
    /// Number of CPUs of the machine.
    pub(super) cpu_count: u64,
    /// Highest conditioned peak, P0 in the estimator's documentation.
    pub(super) cpu_peak: u64,
    pub(super) cpu_predicted: u64,
    pub(super) cpu_safe: u64,
    pub(super) cpu_capacity: u64,
    pub(super) cpu_warm: u64,
    pub(super) memory_used: u64,
    /// The applied ratio, read back from the Node.
    pub(super) ratio: PerResource<u64>,
    /// Raw allocatable, read back from the Node.
    pub(super) raw: PerResource<u64>,
    /// Allocatable, read back from the Node.
    pub(super) allocatable: PerResource<u64>,
    /// CPU requests of pods that are bound to the node.
    pub(super) bound_cpu: u64,
    /// Number of pods without a node.
    pub(super) pending: usize,
    /// Number of bound pods that run.
    pub(super) running: usize,
    /// Brake level of CPU, 0 to 3.
    pub(super) brake: u8,
    /// Reason codes of the ratio.
    pub(super) reason: String,
    /// The kernel's run count of the eBPF program at `sched_switch`.
    pub(super) prog_runs: u64,
    pub(super) resource_version: String,
    /// True once the scheduler has rejected a pod of the waiting Deployment.
    pub(super) was_refused: bool,
    /// Number of pods of the waiting Deployment that have a node.
    pub(super) admitted: usize,
    /// Failure or deletion of a bound pod.
    pub(super) pod_failure: Option<String>,
}

impl Snapshot {
    /// Allocatable CPU less bound requests.
    pub(super) fn free_cpu(&self) -> u64 {
        self.allocatable.cpu.saturating_sub(self.bound_cpu)
    }

    /// The JSON line of an event at this time.
    pub(super) fn line<'a>(&'a self, event: &'a str) -> Line<'a> {
        Line {
            t_s: f64::from(u32::try_from(self.at_ms).unwrap_or(u32::MAX)) / 1000.0,
            event,
            node: &self.node,
            mode: &self.mode,
            source: &self.source,
            cpu_used_milli: self.cpu_used,
            cpu_peak_milli: self.cpu_peak,
            mem_used_bytes: self.memory_used,
            ratio_cpu_cents: self.ratio.cpu,
            ratio_mem_cents: self.ratio.memory,
            raw_cpu_milli: self.raw.cpu,
            allocatable_cpu_milli: self.allocatable.cpu,
            raw_mem_bytes: self.raw.memory,
            allocatable_mem_bytes: self.allocatable.memory,
            bound_cpu_milli: self.bound_cpu,
            pending_pods: self.pending,
            brake: self.brake,
            reason: &self.reason,
            prog_runs: self.prog_runs,
            cpu_truth_milli: self.cpu_truth,
            resource_version: &self.resource_version,
        }
    }
}

/// A line of `--json`; keys carry their units.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    t_s: f64,
    event: &'a str,
    node: &'a str,
    mode: &'a str,
    source: &'a str,
    cpu_used_milli: u64,
    cpu_peak_milli: u64,
    mem_used_bytes: u64,
    ratio_cpu_cents: u64,
    ratio_mem_cents: u64,
    raw_cpu_milli: u64,
    allocatable_cpu_milli: u64,
    raw_mem_bytes: u64,
    allocatable_mem_bytes: u64,
    bound_cpu_milli: u64,
    pending_pods: usize,
    brake: u8,
    reason: &'a str,
    prog_runs: u64,
    cpu_truth_milli: u64,
    resource_version: &'a str,
}
