//! The agent's status: what `/status` on its admin port, its debug service, and the tables and the JSON of
//! `kubectl headroom agent` are made of. [`FIELDS`] lists its fields.
//!
//! As JSON it is a stable document. Numbers are integers with the unit in the name; those of a resource are in its
//! `unit`. `_ns` are CLOCK_MONOTONIC.

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

/// The agent at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Name of the Node.
    pub node: String,
    /// UID of the Node object; empty before the first directive.
    pub node_uid: String,
    /// The kernel's boot id.
    pub boot_id: String,
    /// The agent's version.
    pub version: String,
    /// `FULL`, `FULL_SHED`, `PROC` or `BLIND`.
    pub mode: String,
    /// What the mode means here: what is lost, why, and what to do.
    pub mode_sentence: String,
    /// Since when the history counts.
    #[serde(default)]
    pub history: HistoryStatus,
    /// `production` or `demo`.
    pub timing: String,
    /// Where CPU use comes from: `ebpf` or `procfs`.
    pub source: String,
    /// The kernel programs.
    pub programs: Vec<ProgramStatus>,
    /// What the last whole second showed; absent before the first.
    pub measured: Option<Measured>,
    /// CPU and memory, in this order.
    pub resources: Vec<ResourceStatus>,
    /// Pods by cgroup.
    pub pods: PodsStatus,
    /// Sequence number of the last report; 0 before the first.
    pub seq: u64,
    /// Generation of the pod store behind the numbers; 0 before the first directive.
    pub generation: u64,
    /// Streams to hint servers.
    pub streams: Vec<StreamStatus>,
    /// Every signal, as the agent's table declares them.
    pub signals: Vec<SignalStatus>,
}

/// Since when the history counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryStatus {
    /// Age of its beginning, in seconds.
    pub age_s: u64,
    /// Why it began then: a [`Beginning`].
    pub beginning: String,
    /// The same for people.
    pub why: String,
}

/// One signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalStatus {
    /// Its name.
    pub name: String,
    /// Where it comes from here: hooks or files.
    pub source: String,
    /// `ok`, `unsupported` or `failed`.
    pub health: String,
    /// What one unit of the value is.
    pub unit: String,
    /// The last measurement; absent before the first, and where the signal is missing.
    pub value: Option<u64>,
    /// What is lost without it, or without the part of its source that is not there, and why; absent while all of it is.
    pub missing: Option<String>,
}

/// One hook of the kernel programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// The kernel's name of the tracepoint.
    pub hook: String,
    /// `ok`, `unsupported` or `failed`.
    pub health: String,
    /// `typed` or `raw`; absent unless attached.
    pub flavour: Option<String>,
    /// Why it is not attached, or not as the typed program.
    pub reason: Option<String>,
    /// Runs, as the kernel counts them; 0 unless the agent was told to have it count.
    pub runs: u64,
    /// Time in those runs.
    pub run_time_ns: u64,
    /// End of what the kernel's verifier said when it refused a program, at most 4 KiB; absent where it refused none.
    #[serde(default)]
    pub verifier_log: Option<String>,
}

/// Measurements of one second, for those who read them by these names. The list is closed: each is a signal, too, and a new
/// signal is a row of the agent's table alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Start of the stretch that the CPU numbers are of.
    pub from_ns: u64,
    /// Its end.
    pub until_ns: u64,
    /// Busy CPUs without stolen time.
    pub cpu_used_milli: u64,
    /// Busy CPUs with it.
    pub cpu_busy_milli: u64,
    /// Busy CPUs, and those that tasks waited for where nearly all were busy.
    pub cpu_demand_milli: u64,
    /// The busiest 134 ms of the last brake period; 0 from procfs.
    pub cpu_peak_milli: u64,
    /// CPUs that pods hold for themselves alone.
    pub exclusive_milli: u64,
    /// Time the hypervisor gave to somebody else.
    pub steal_milli: u64,
    /// Context switches a second; 0 from procfs.
    pub switches_per_s: u64,
    /// Windows of 8.39 ms that were lost in it.
    pub lost_windows: u64,
    /// Memory in real use.
    pub mem_used_bytes: u64,
    /// Memory that could be had without swapping.
    pub mem_available_bytes: u64,
    /// Memory available above the kubelet's hard eviction threshold when it was least in the last brake period.
    pub mem_spare_bytes: Option<u64>,
    /// Working set of all pods; 0 without kubepods.
    pub working_set_bytes: u64,
    /// Time in direct reclaim for the whole machine, in the last brake period; 0 from procfs.
    pub direct_reclaim_ms: u64,
    /// Pages that came back after reclaim, in the last brake period.
    pub refault_mb_s: u64,
    /// Pages swapped out, in the last brake period.
    pub swap_out_mb_s: u64,
    /// Times kubepods met its own limit, in the last brake period.
    pub limit_hits: u64,
    /// OOM kills of the machine since the agent was started.
    pub oom_kills: u64,
    /// Share of windows without an idle CPU, of the last brake period; 0 from procfs.
    pub sigma8_ppm: u32,
    /// Run-queue latency of the last brake period, median by waiting time; 0 from procfs.
    pub runq_p50_us: u64,
    /// 99th percentile of it, by waiting time.
    pub runq_p99_us: u64,
    /// 134 ms peak over mean, of the last brake period; 0 from procfs.
    pub burst_ppm: u32,
    /// CPU pressure, some, of the last brake period. Not to be trusted alone: quotas count.
    pub psi_cpu_some_ppm: u32,
    /// Memory pressure, some, of the last brake period.
    pub psi_mem_some_ppm: u32,
    /// Memory pressure, full, of the last brake period.
    pub psi_mem_full_ppm: u32,
}

/// Pods by cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodsStatus {
    /// Pods whose use is read.
    pub tracked: u64,
    /// Pods beyond the limit; charged in full.
    pub untracked: u64,
    /// Cgroups that look like a pod's and have no UID in their name.
    pub unreadable: u64,
}

/// One stream to a hint server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// The server.
    pub peer: SocketAddr,
    /// What it is doing.
    pub state: StreamState,
    /// True for the server that nudges for this node.
    pub is_primary: bool,
    /// The last answer to a report.
    pub last_ack: Option<AckStatus>,
    /// Why there is no stream.
    pub last_problem: Option<String>,
}

/// What a stream is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamState {
    /// The first attempt is under way.
    Connecting,
    /// Reports go up.
    Open,
    /// The last attempt failed or the stream was lost; another attempt follows.
    Waiting,
}

/// A server's answer to a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckStatus {
    /// Sequence number of the report.
    pub seq: u64,
    /// `accepted`, `stale`, `rejected` or `unspecified`.
    pub verdict: String,
    /// For people; empty when accepted.
    pub reason: String,
}

impl HistoryStatus {
    /// What is said of a past.
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
    /// A stream that is being opened.
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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Connecting, Self::Open, Self::Waiting];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Open => "open",
            Self::Waiting => "waiting",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl Status {
    /// The part of one resource.
    pub fn resource(&self, resource: Resource) -> Option<&ResourceStatus> {
        self.resources.iter().find(|part| part.name == resource.name())
    }
}
