//! `FIELDS`: every field of the agent's status, declared once. The types, the message of the debug service and the
//! tables of `kubectl headroom agent` are compared with it by tests; the page docs/reference/agent-status.md and the
//! rows of a resource's figures follow from it.

use super::ResourceStatus;

/// A field of the status.
#[derive(Clone, Copy, Debug)]
pub struct StatusField {
    /// Its path in the document: `[]` stands for each element of a list.
    pub path: &'static str,
    /// What one unit of it is.
    pub unit: FieldUnit,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Where the tables of `kubectl headroom agent` show it.
    pub place: Place,
}

/// What one unit of a field is; the field's name ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldUnit {
    /// A text.
    Text,
    /// True or false.
    Flag,
    /// A number.
    Count,
    /// Level of a brake, 0 to 3.
    Level,
    /// Milli-cores or bytes: the `unit` of its resource.
    OfResource,
    /// The `unit` of its signal.
    OfSignal,
    /// Hundredths of a ratio.
    Cents,
    /// Parts of a million.
    Ppm,
    /// Milli-cores.
    Milli,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
    /// Megabytes a second.
    MegabytesPerSecond,
    /// A number a second.
    PerSecond,
}

/// Where the tables of `kubectl headroom agent` show a field.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// A line above or below the tables.
    Line,
    /// The column of that heading.
    Column(&'static str),
    /// A row of the table of figures: its heading, and its reading; `None` while there is none.
    Row(&'static str, fn(&ResourceStatus) -> Option<i64>),
    /// Nowhere by itself: the signal of that name has the same value.
    Signal(&'static str),
    /// Nowhere: the reason.
    DocumentOnly(&'static str),
}

impl FieldUnit {
    /// Its name in the reference.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Flag => "true or false",
            Self::Count => "count",
            Self::Level => "0 to 3",
            Self::OfResource => "the resource's",
            Self::OfSignal => "the signal's",
            Self::Cents => "cents",
            Self::Ppm => "ppm",
            Self::Milli => "milli",
            Self::Bytes => "bytes",
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
            Self::MegabytesPerSecond => "MB/s",
            Self::PerSecond => "per s",
        }
    }

    /// What the name of such a field ends in; empty for those that need no unit.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Text | Self::Flag | Self::Count | Self::Level | Self::OfResource | Self::OfSignal => "",
            Self::Cents => "_cents",
            Self::Ppm => "_ppm",
            Self::Milli => "_milli",
            Self::Bytes => "_bytes",
            Self::Seconds => "_s",
            Self::Millis => "_ms",
            Self::Micros => "_us",
            Self::Nanos => "_ns",
            Self::MegabytesPerSecond => "_mb_s",
            Self::PerSecond => "_per_s",
        }
    }
}

/// Every field, in the order of the document.
#[rustfmt::skip]
pub static FIELDS: &[StatusField] = {
    use FieldUnit::{
        Bytes, Cents, Count, Flag, Level, MegabytesPerSecond, Micros, Milli, Millis, Nanos, OfResource, OfSignal, PerSecond,
        Ppm, Seconds, Text,
    };
    use Place::{Column, DocumentOnly, Line, Row, Signal};
    const CLOCK: Place = DocumentOnly("it tells one second from another; a table is of the last one");
    &[
        field("node", Text, "name of the Node", Line),
        field("node_uid", Text, "UID of the Node; empty before the first directive", Line),
        field("boot_id", Text, "the kernel's boot id", Line),
        field("version", Text, "the agent's version", Line),
        field("mode", Text, "`FULL`, `FULL_SHED`, `PROC` or `BLIND`", Line),
        field("mode_sentence", Text, "what is lost in this mode, why, and what to do", Line),
        field("history.age_s", Seconds, "age of the history that counts", Line),
        field("history.beginning", Text, "code of the reason why it began then", DocumentOnly("its sentence is shown")),
        field("history.why", Text, "why it began then", Line),
        field("timing", Text, "`production` or `demo`", Line),
        field("source", Text, "`ebpf` or `procfs`", DocumentOnly("the mode and its sentence say it")),
        field("programs[].hook", Text, "the kernel's name of the tracepoint", Column("HOOK")),
        field("programs[].health", Text, "`ok`, `unsupported` or `failed`", Column("HEALTH")),
        field("programs[].flavour", Text, "`typed` or `raw`; null unless attached", Column("FLAVOUR")),
        field("programs[].reason", Text, "why it is not attached, or not as the typed program", Column("REASON")),
        field("programs[].runs", Count, "runs, as the kernel counts them; 0 without `--program-stats`", Column("RUNS")),
        field("programs[].run_time_ns", Nanos, "time in those runs", Column("NS/RUN")),
        field("programs[].verifier_log", Text, "end of the verifier's log of a refused program", Line),
        field("measured.from_ns", Nanos, "start of the second, CLOCK_MONOTONIC", CLOCK),
        field("measured.until_ns", Nanos, "end of the second, CLOCK_MONOTONIC", CLOCK),
        field("measured.cpu_used_milli", Milli, "busy CPUs without stolen time", Signal("cpu-used")),
        field("measured.cpu_busy_milli", Milli, "busy CPUs with stolen time", Signal("cpu-busy")),
        field("measured.cpu_demand_milli", Milli, "busy CPUs and those that tasks waited for", Signal("cpu-demand")),
        field("measured.cpu_peak_milli", Milli, "the busiest 134 ms of the last brake period", Signal("cpu-peak")),
        field("measured.exclusive_milli", Milli, "CPUs that pods hold for themselves alone", Signal("exclusive-cpus")),
        field("measured.steal_milli", Milli, "CPUs that the hypervisor gave to others", Signal("steal")),
        field("measured.switches_per_s", PerSecond, "context switches", Signal("switches")),
        field("measured.lost_windows", Count, "windows of 8.39 ms that were lost in the second", DocumentOnly("a frame that lost windows is not valid, which the coverage shows")),
        field("measured.mem_used_bytes", Bytes, "memory in real use", Signal("memory-used")),
        field("measured.mem_available_bytes", Bytes, "memory that could be had without swapping", Signal("memory-available")),
        field("measured.mem_spare_bytes", Bytes, "memory above the hard eviction threshold, the least in the last brake period", Signal("memory-spare")),
        field("measured.working_set_bytes", Bytes, "working set of all pods", Signal("working-set")),
        field("measured.direct_reclaim_ms", Millis, "time in direct reclaim in the last brake period", Signal("direct-reclaim")),
        field("measured.refault_mb_s", MegabytesPerSecond, "pages that came back after reclaim", Signal("refaults")),
        field("measured.swap_out_mb_s", MegabytesPerSecond, "pages swapped out", Signal("swap-out")),
        field("measured.limit_hits", Count, "times kubepods met its own limit in the last brake period", Signal("limit-hits")),
        field("measured.oom_kills", Count, "OOM kills of the machine since the agent was started", Signal("oom-kills")),
        field("measured.sigma8_ppm", Ppm, "share of windows without an idle CPU", Signal("sigma8")),
        field("measured.runq_p50_us", Micros, "wait for a CPU, median by waiting time", Signal("run-queue-p50")),
        field("measured.runq_p99_us", Micros, "wait for a CPU, 99th percentile by waiting time", Signal("run-queue-p99")),
        field("measured.burst_ppm", Ppm, "134 ms peak over mean", Signal("burst")),
        field("measured.psi_cpu_some_ppm", Ppm, "CPU pressure, some", Signal("psi-cpu")),
        field("measured.psi_mem_some_ppm", Ppm, "memory pressure, some", Signal("psi-memory-some")),
        field("measured.psi_mem_full_ppm", Ppm, "memory pressure, full", Signal("psi-memory-full")),
        field("resources[].name", Text, "`cpu` or `memory`", Column("CPU, MEMORY")),
        field("resources[].unit", Text, "`milli` or `bytes`", DocumentOnly("amounts in tables have it beside them")),
        field("resources[].capacity", OfResource, "physical capacity", Row("C", |of| Some(amount(of.capacity)))),
        field("resources[].raw", OfResource, "raw allocatable", Row("A", |of| Some(amount(of.raw)))),
        field("resources[].safe", OfResource, "safe use", Row("T", |of| Some(amount(of.safe)))),
        field("resources[].peak", OfResource, "expected peak", Row("P0", |of| Some(amount(of.peak)))),
        field("resources[].history.highest", OfResource, "highest conditioned peak of a frame", Row("max H", |of| Some(amount(of.history?.highest)))),
        field("resources[].history.frames_ago", Count, "frames since that one", Row("age", |of| Some(amount(of.history?.frames_ago)))),
        field("resources[].history.last", OfResource, "conditioned peak of the last valid frame", Row("H", |of| Some(amount(of.history?.last)))),
        field("resources[].history.climb", OfResource, "worst climb of memory in half an hour", Row("G", |of| Some(amount(of.history?.climb)))),
        field("resources[].predicted_peak", OfResource, "predicted peak", Row("P", |of| Some(amount(of.predicted_peak)))),
        field("resources[].warm_requests", OfResource, "warm requests", Row("Rw", |of| Some(amount(of.warm_requests)))),
        field("resources[].bound", OfResource, "requests of all pods bound", Row("R", |of| Some(amount(of.bound)))),
        field("resources[].slack", OfResource, "slack", Row("S", |of| Some(of.slack))),
        field("resources[].target_cents", Cents, "where the ratio is going", Row("target", |of| Some(of.target_cents.into()))),
        field("resources[].published_cents", Cents, "the ratio", Row("published", |of| Some(of.published_cents.into()))),
        field("resources[].coverage_ppm", Ppm, "share of the history that is valid", Row("coverage", |of| Some(of.coverage_ppm.into()))),
        field("resources[].confidence_ppm", Ppm, "that, or the trusted share of requests, if less", Row("confidence", |of| Some(of.confidence_ppm.into()))),
        field("resources[].margin_ppm", Ppm, "on the peak", Row("margin", |of| Some(of.margin_ppm.into()))),
        field("resources[].calibration.accumulator_ppm", Ppm, "the margin as outcomes moved it, before its limit", Row("M", |of| Some(of.calibration.accumulator_ppm.into()))),
        field("resources[].calibration.is_latched", Flag, "not amplified because of outcomes", Row("latched", |of| Some(of.calibration.is_latched.into()))),
        field("resources[].brake", Level, "keeps the ratio down", Row("brake", |of| Some(of.brake.into()))),
        field("resources[].reasons[]", Text, "reason codes, most important first", Line),
        field("pods.tracked", Count, "pods whose use is read", Line),
        field("pods.untracked", Count, "pods beyond the limit, charged in full", Line),
        field("pods.unreadable", Count, "cgroups that look like a pod's and have no UID in their name", Line),
        field("seq", Count, "number of the last report; 0 before the first", Line),
        field("generation", Count, "generation of the pod store behind the numbers", Line),
        field("streams[].peer", Text, "address and port of a hint server", Column("SERVER")),
        field("streams[].state", Text, "`connecting`, `open` or `waiting`", Column("STATE")),
        field("streams[].is_primary", Flag, "this server nudges for the node", Column("PRIMARY")),
        field("streams[].last_ack.seq", Count, "number of the report that was answered last", Column("ACKED")),
        field("streams[].last_ack.verdict", Text, "`accepted`, `stale`, `rejected` or `unspecified`", Column("VERDICT")),
        field("streams[].last_ack.reason", Text, "why; empty when accepted", Column("VERDICT")),
        field("streams[].last_problem", Text, "why there is no stream", Column("PROBLEM")),
        field("signals[].name", Text, "name of the signal", Column("SIGNAL")),
        field("signals[].source", Text, "hooks or files that it comes from here", Column("SOURCE")),
        field("signals[].health", Text, "`ok`, `unsupported` or `failed`", Column("HEALTH")),
        field("signals[].unit", Text, "what one unit of the value is", Column("VALUE")),
        field("signals[].value", OfSignal, "the last measurement; null where there is none", Column("VALUE")),
        field("signals[].missing", Text, "what is lost without it, and why", Column("MISSING")),
    ]
};

const fn field(path: &'static str, unit: FieldUnit, about: &'static str, place: Place) -> StatusField {
    StatusField {
        path,
        unit,
        about,
        place,
    }
}

/// An amount of a row; the largest is as much as a document can say of slack.
fn amount(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
