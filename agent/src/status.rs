//! What `/status` on the admin port says: a stable JSON document, for people and for programs that look at an agent.
//!
//! Numbers are integers with the unit in the name; those of a resource are in its `unit`. `_ns` are CLOCK_MONOTONIC.

use std::net::SocketAddr;

use headroom_domain::{
    estimate::{Estimate, Slack},
    resource::Resource,
};
use serde::{Deserialize, Serialize};

use crate::probe::{Flavour, Health, Verdict};

/// Path of the document on the admin port.
pub const PATH: &str = "/status";

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
}

/// Measurements of one second.
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
    /// Time the hypervisor gave to somebody else.
    pub steal_milli: u64,
    /// Context switches a second; 0 from procfs.
    pub switches_per_s: u64,
    /// Windows of 8.39 ms that were lost in it.
    pub lost_windows: u64,
    /// Memory in real use.
    pub mem_used_bytes: u64,
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

/// The estimate of one resource; amounts in its unit. The letters are those of agent.md, section 2.3.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// `cpu` or `memory`.
    pub name: String,
    /// `milli` or `bytes`.
    pub unit: String,
    /// C: what the machine has.
    pub capacity: u64,
    /// A: raw allocatable.
    pub raw: u64,
    /// T: use that is safe.
    pub safe: u64,
    /// P0: conditioned peak.
    pub peak: u64,
    /// P: P0 with its margin.
    pub predicted_peak: u64,
    /// Rw: requests that are trusted.
    pub warm_requests: u64,
    /// R: requests bound to the node.
    pub bound: u64,
    /// S = T - P + Rw - A.
    pub slack: i64,
    /// The ratio that publication moves towards.
    pub target_cents: u32,
    /// The ratio to apply.
    pub published_cents: u32,
    /// Share of the history that is valid.
    pub coverage_ppm: u32,
    /// m: the margin.
    pub margin_ppm: u32,
    /// Level of the brake in force, 0 to 3.
    pub brake: u8,
    /// Reason codes, most important first.
    pub reasons: Vec<String>,
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

impl ProgramStatus {
    /// What became of a hook, without its runs.
    pub fn of(verdict: &Verdict) -> Self {
        let Verdict {
            hook,
            health,
            flavour,
            reason,
            verifier_log: _,
        } = verdict;
        let health = match health {
            Health::Ok => "ok",
            Health::Unsupported => "unsupported",
            Health::Failed => "failed",
        };
        let flavour = flavour.map(|flavour| match flavour {
            Flavour::Typed => "typed",
            Flavour::Raw => "raw",
        });
        Self {
            hook: hook.tracepoint().to_owned(),
            health: health.to_owned(),
            flavour: flavour.map(ToOwned::to_owned),
            reason: reason.clone(),
            runs: 0,
            run_time_ns: 0,
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

impl ResourceStatus {
    /// The status of one resource's estimate.
    pub fn of(resource: Resource, estimate: &Estimate) -> Self {
        let Estimate {
            capacity,
            raw,
            slack,
            target,
            published,
            coverage_ppm,
            margin_ppm,
            brake,
            reasons,
        } = estimate;
        let Slack {
            raw: _,
            safe,
            peak,
            predicted_peak,
            warm_requests,
            bound,
            slack,
        } = *slack;
        Self {
            name: resource.name().to_owned(),
            unit: match resource {
                Resource::Cpu => "milli",
                Resource::Memory => "bytes",
            }
            .to_owned(),
            capacity: *capacity,
            raw: *raw,
            safe,
            peak,
            predicted_peak,
            warm_requests,
            bound,
            slack: i64::try_from(slack).unwrap_or(if slack < 0 { i64::MIN } else { i64::MAX }),
            target_cents: target.0,
            published_cents: published.0,
            coverage_ppm: *coverage_ppm,
            margin_ppm: *margin_ppm,
            brake: brake.level(),
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
        }
    }
}

impl Status {
    /// The part of one resource.
    pub fn resource(&self, resource: Resource) -> Option<&ResourceStatus> {
        self.resources.iter().find(|part| part.name == resource.name())
    }
}
