//! [`Status`] of the agent, the source of `/status` on its admin port, of its debug service, and of the tables and
//! the JSON of `kubectl headroom agent`. [`FIELDS`] lists its fields.
//!
//! The JSON is a stable document. Numbers are integers with the unit in the name; amounts of a resource are in its
//! `unit`. Names in `_ns` are CLOCK_MONOTONIC.

mod fields;
mod resource;
#[cfg(test)]
pub(crate) mod sample;

use std::net::SocketAddr;

use headroom_domain::{
    hint::{Beginning, Past},
    resource::Resource,
};
use serde::{Deserialize, Serialize};

pub use self::{
    fields::{FIELDS, FieldUnit, Place, StatusField},
    resource::{CalibrationStatus, PeakStatus, ResourceStatus},
};

/// State of the agent at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Name of the Node object.
    pub node: String,
    /// UID of the Node object; empty before the first directive.
    pub node_uid: String,
    /// Boot ID of the kernel.
    pub boot_id: String,
    /// Version of the agent, such as `0.2.0`.
    pub version: String,
    /// Mode of the agent: `FULL`, `FULL_SHED`, `PROC` or `BLIND`.
    pub mode: String,
    /// Meaning of the mode on this node: lost signals, the cause, and the fix.
    pub mode_sentence: String,
    /// Age and beginning of the history.
    #[serde(default)]
    pub history: HistoryStatus,
    /// Timing profile: `production` or `demo`.
    pub timing: String,
    /// Source of CPU use: `ebpf` or `procfs`.
    pub source: String,
    /// State of the kernel programs, by hook.
    pub programs: Vec<ProgramStatus>,
    /// Measurements of the last complete second; absent before the first.
    pub measured: Option<Measured>,
    /// CPU and memory, in this order.
    pub resources: Vec<ResourceStatus>,
    /// Numbers of pods found by their cgroups.
    pub pods: PodsStatus,
    /// Sequence number of the last report; 0 before the first.
    pub seq: u64,
    /// Generation of the pod store behind the numbers; 0 before the first directive.
    pub generation: u64,
    /// Streams to hint servers, one per replica.
    pub streams: Vec<StreamStatus>,
    /// Every signal, in the order of the agent's table.
    pub signals: Vec<SignalStatus>,
}

/// Age and beginning of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryStatus {
    /// Age of the history's beginning, in seconds.
    pub age_s: u64,
    /// Code of the reason for its beginning: a [`Beginning`].
    pub beginning: String,
    /// Reason for its beginning, as a sentence.
    pub why: String,
}

/// State and last measurement of one signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalStatus {
    /// Name in the agent's table of signals.
    pub name: String,
    /// Hooks or files that it comes from on this node.
    pub source: String,
    /// Health: `ok`, `unsupported` or `failed`.
    pub health: String,
    /// Unit of the value, such as `ppm`.
    pub unit: String,
    /// Last measurement; absent before the first, and if the signal is missing.
    pub value: Option<u64>,
    /// Effect of the missing signal, or of a missing part of its source, and the cause; absent if nothing is missing.
    pub missing: Option<String>,
}

/// State of one hook of the kernel programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Kernel's name of the tracepoint.
    pub hook: String,
    /// Health: `ok`, `unsupported` or `failed`.
    pub health: String,
    /// Program type: `typed` or `raw`; absent unless attached.
    pub flavour: Option<String>,
    /// Reason why it is not attached, or attached as the raw program.
    pub reason: Option<String>,
    /// Number of runs, as counted by the kernel; 0 unless the agent was started with `--program-stats`.
    pub runs: u64,
    /// Time spent in those runs, in nanoseconds.
    pub run_time_ns: u64,
    /// End of the verifier log of a rejected program, at most 4 KiB; absent if none was rejected.
    #[serde(default)]
    pub verifier_log: Option<String>,
}

/// Measurements of one second under stable names. The list is closed: each measurement is also a signal, and new
/// signals are added only to the agent's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Start of the interval of the CPU numbers, CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// End of the interval of the CPU numbers, CLOCK_MONOTONIC.
    pub until_ns: u64,
    /// Busy CPUs without stolen time, in milli-cores.
    pub cpu_used_milli: u64,
    /// Busy CPUs with stolen time, in milli-cores.
    pub cpu_busy_milli: u64,
    /// Busy CPUs, plus CPUs that tasks waited for while nearly all were busy, in milli-cores.
    pub cpu_demand_milli: u64,
    /// Busiest 134 ms of the last brake period, in milli-cores; 0 from procfs.
    pub cpu_peak_milli: u64,
    /// Exclusive CPUs of pods, in milli-cores.
    pub exclusive_milli: u64,
    /// CPU time that the hypervisor gave to other guests, in milli-cores.
    pub steal_milli: u64,
    /// Context switches per second; 0 from procfs.
    pub switches_per_s: u64,
    /// Windows of 8.39 ms that were lost in the second.
    pub lost_windows: u64,
    /// Memory in use, in bytes.
    pub mem_used_bytes: u64,
    /// Memory available without swapping, in bytes.
    pub mem_available_bytes: u64,
    /// Least memory above the kubelet's hard eviction threshold in the last brake period, in bytes; absent if
    /// unknown.
    pub mem_spare_bytes: Option<u64>,
    /// Working set of all pods, in bytes; 0 without kubepods.
    pub working_set_bytes: u64,
    /// Time in global direct reclaim in the last brake period, in milliseconds; 0 from procfs.
    pub direct_reclaim_ms: u64,
    /// Refaults of reclaimed pages in the last brake period, in MB/s.
    pub refault_mb_s: u64,
    /// Pages swapped out in the last brake period, in MB/s.
    pub swap_out_mb_s: u64,
    /// Number of times kubepods reached its memory limit in the last brake period.
    pub limit_hits: u64,
    /// Global OOM kills since the agent started.
    pub oom_kills: u64,
    /// Share of windows without an idle CPU in the last brake period, in ppm; 0 from procfs.
    pub sigma8_ppm: u32,
    /// Median run-queue latency of the last brake period, weighted by waiting time, in microseconds; 0 from procfs.
    pub runq_p50_us: u64,
    /// 99th percentile of run-queue latency, weighted by waiting time, in microseconds; 0 from procfs.
    pub runq_p99_us: u64,
    /// 134 ms peak over mean of the last brake period, in ppm; 0 from procfs.
    pub burst_ppm: u32,
    /// CPU pressure `some` of the last brake period, in ppm. Unreliable on its own: tasks throttled by a quota count.
    pub psi_cpu_some_ppm: u32,
    /// Memory pressure `some` of the last brake period, in ppm.
    pub psi_mem_some_ppm: u32,
    /// Memory pressure `full` of the last brake period, in ppm.
    pub psi_mem_full_ppm: u32,
}

/// Numbers of pods found by their cgroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodsStatus {
    /// Pods whose use is measured.
    pub tracked: u64,
    /// Pods beyond the limit, charged in full.
    pub untracked: u64,
    /// Cgroups that look like a pod's but have no UID in their name.
    pub unreadable: u64,
}

/// State of one stream to a hint server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// Address and port of the server.
    pub peer: SocketAddr,
    /// Current state of the stream.
    pub state: StreamState,
    /// True for the server that nudges for this node.
    pub is_primary: bool,
    /// Last answer to a report; absent before the first.
    pub last_ack: Option<AckStatus>,
    /// Reason why there is no stream; absent if there is one.
    pub last_problem: Option<String>,
}

/// State of a stream to a hint server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamState {
    /// The first attempt is in progress.
    Connecting,
    /// The stream is open and carries reports.
    Open,
    /// The last attempt failed or the stream was lost; another attempt follows.
    Waiting,
}

/// Answer of a server to one report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckStatus {
    /// Sequence number of the answered report.
    pub seq: u64,
    /// Verdict: `accepted`, `stale`, `rejected` or `unspecified`.
    pub verdict: String,
    /// Reason of the verdict, for display; empty if accepted.
    pub reason: String,
}

impl HistoryStatus {
    /// Converts the origin of a history; an unknown reason is empty.
    pub fn from_domain(past: Past) -> Self {
        let Past { age_s, beginning } = past;
        let text =
            |of: fn(Beginning) -> &'static str| beginning.map_or_else(String::new, |it| of(it).to_owned());
        Self {
            age_s,
            beginning: text(Beginning::name),
            why: text(Beginning::about),
        }
    }
}

impl StreamStatus {
    /// State of a stream whose first attempt starts.
    pub const fn new(peer: SocketAddr) -> Self {
        Self {
            peer,
            state: StreamState::Connecting,
            is_primary: false,
            last_ack: None,
            last_problem: None,
        }
    }
}

impl StreamState {
    /// All states, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Connecting, Self::Open, Self::Waiting];

    /// Word in the document, such as `open`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Open => "open",
            Self::Waiting => "waiting",
        }
    }

    /// State of that name; `None` if unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl Status {
    /// Part of one resource; `None` if the agent has none.
    pub fn resource(&self, resource: Resource) -> Option<&ResourceStatus> {
        self.resources.iter().find(|part| part.name == resource.name())
    }
}
