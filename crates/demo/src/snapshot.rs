//! `Snapshot`: one moment of the demo, with the API server's objects and the measurements, and its JSON line.

use headroom_domain::resource::PerResource;
use serde::Serialize;

/// Everything the demo shows about one moment. CPU in milli-cores, memory in bytes, ratios in cents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Snapshot {
    /// Milliseconds since the Node was first Ready.
    pub(super) at_ms: u64,
    /// The node.
    pub(super) node: String,
    /// The amplification mode in force.
    pub(super) mode: String,
    /// `ebpf` or `procfs`.
    pub(super) source: String,
    /// Measured CPU use over the agent's last interval, without stolen time.
    pub(super) cpu_used: u64,
    /// Measured CPU use with stolen time: what saturates.
    pub(super) cpu_busy: u64,
    /// Ground truth over that same interval: runtime of the root CPU accounting group.
    pub(super) cpu_truth: u64,
    /// Highest conditioned peak (P0).
    pub(super) cpu_peak: u64,
    /// Predicted peak (P).
    pub(super) cpu_predicted: u64,
    /// Safe use (T).
    pub(super) cpu_safe: u64,
    /// Capacity (C).
    pub(super) cpu_capacity: u64,
    /// Warm requests (Rw).
    pub(super) cpu_warm: u64,
    /// Measured memory use.
    pub(super) memory_used: u64,
    /// The applied ratio, read back from the Node.
    pub(super) ratio: PerResource<u64>,
    /// Raw allocatable, read back from the Node.
    pub(super) raw: PerResource<u64>,
    /// Allocatable, read back from the Node.
    pub(super) allocatable: PerResource<u64>,
    /// Requests bound to the node, read back from the pods.
    pub(super) bound_cpu: u64,
    /// Pods that wait for a node.
    pub(super) pending: usize,
    /// Pods bound to the node and running.
    pub(super) running: usize,
    /// The CPU's brake level, 0 to 3.
    pub(super) brake: u8,
    /// Why the ratio is what it is.
    pub(super) reason: String,
    /// The kernel's own count of runs of our `sched_switch` program.
    pub(super) prog_runs: u64,
    /// The Node's resourceVersion.
    pub(super) resource_version: String,
    /// True once a pod of the waiting Deployment was refused by the scheduler.
    pub(super) was_refused: bool,
    /// Pods of the waiting Deployment that have a node.
    pub(super) admitted: usize,
    /// What was done to a bound pod that should not have been, if anything.
    pub(super) hurt: Option<String>,
}

impl Snapshot {
    /// CPU that can still be handed out.
    pub(super) fn free_cpu(&self) -> u64 {
        self.allocatable.cpu.saturating_sub(self.bound_cpu)
    }

    /// The JSON line for an event at this moment.
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
