//! [`FIELDS`]: every field of the agent's status, declared once. Tests compare the types, the message of the debug
//! service and the tables of `kubectl headroom agent` with it. The page docs/reference/agent-status.md and the rows
//! of a resource's figures are generated from it.

use super::ResourceStatus;

/// Declaration of one field of the status.
#[derive(Clone, Copy, Debug)]
pub struct StatusField {
    /// Path in the document; `[]` stands for each element of a list.
    pub path: &'static str,
    /// Unit of the field's value.
    pub unit: FieldUnit,
    /// Short description for the reference.
    pub about: &'static str,
    /// Place in the tables of `kubectl headroom agent`.
    pub place: Place,
}

/// Unit of a field's value; the field's name ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldUnit {
    /// A text; names have no unit suffix.
    Text,
    /// A boolean; names have no unit suffix.
    Flag,
    /// A number; names have no unit suffix.
    Count,
    /// Level of a brake, 0 to 3.
    Level,
    /// Milli-cores or bytes: the `unit` of its resource.
    OfResource,
    /// The `unit` of its signal.
    OfSignal,
    /// Hundredths of a ratio; names end in `_cents`.
    Cents,
    /// Parts per million; names end in `_ppm`.
    Ppm,
    /// Milli-cores of CPU; names end in `_milli`.
    Milli,
    /// Bytes of memory; names end in `_bytes`.
    Bytes,
    /// Seconds; names end in `_s`.
    Seconds,
    /// Milliseconds; names end in `_ms`.
    Millis,
    /// Microseconds; names end in `_us`.
    Micros,
    /// Nanoseconds; names end in `_ns`.
    Nanos,
    /// Megabytes per second; names end in `_mb_s`.
    MegabytesPerSecond,
    /// Events per second; names end in `_per_s`.
    PerSecond,
}

/// Place of a field in the tables of `kubectl headroom agent`.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// A line above or below the tables.
    Line,
    /// Column of a table with this heading.
    Column(&'static str),
    /// Row of the table of figures: its heading, and the function that reads it; `None` while there is no value.
    Row(&'static str, fn(&ResourceStatus) -> Option<i64>),
    /// No place of its own: the signal of this name has the same value.
    Signal(&'static str),
    /// No place, for this reason.
    DocumentOnly(&'static str),
}

impl FieldUnit {
    /// Name of the unit in the reference.
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

    /// Suffix of the names of such fields; empty if they need no unit.
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
    const CLOCK: Place = DocumentOnly("it distinguishes seconds; tables show the last one");
    &[
        field("node", Text, "name of the Node", Line),
        field("node_uid", Text, "UID of the Node; empty before the first directive", Line),
        field("boot_id", Text, "the kernel's boot id", Line),
        field("version", Text, "the agent's version", Line),
        field("mode", Text, "`FULL`, `FULL_SHED`, `PROC` or `BLIND`", Line),
        field("mode_sentence", Text, "what is lost in this mode, why, and what to do", Line),
        field("history.age_s", Seconds, "age of the history", Line),
        field("history.beginning", Text, "code of the reason for its beginning", DocumentOnly("tables show its sentence")),
        field("history.why", Text, "reason for its beginning", Line),
        field("timing", Text, "`production` or `demo`", Line),
        field("source", Text, "`ebpf` or `procfs`", DocumentOnly("the mode and its sentence contain it")),
        field("programs[].hook", Text, "the kernel's name of the tracepoint", Column("HOOK")),
        field("programs[].health", Text, "`ok`, `unsupported` or `failed`", Column("HEALTH")),
        field("programs[].flavour", Text, "`typed` or `raw`; null unless attached", Column("FLAVOUR")),
        field("programs[].reason", Text, "reason why it is not attached, or attached as the raw program", Column("REASON")),
        field("programs[].runs", Count, "runs, as the kernel counts them; 0 without `--program-stats`", Column("RUNS")),
        field("programs[].run_time_ns", Nanos, "time in those runs", Column("NS/RUN")),
        field("programs[].verifier_log", Text, "end of the verifier log of a rejected program", Line),
        field("measured.from_ns", Nanos, "start of the second, CLOCK_MONOTONIC", CLOCK),
        field("measured.until_ns", Nanos, "end of the second, CLOCK_MONOTONIC", CLOCK),
        field("measured.cpu_used_milli", Milli, "busy CPUs without stolen time", Signal("cpu-used")),
        field("measured.cpu_busy_milli", Milli, "busy CPUs with stolen time", Signal("cpu-busy")),
        field("measured.cpu_demand_milli", Milli, "busy CPUs, plus CPUs that tasks waited for", Signal("cpu-demand")),
        field("measured.cpu_peak_milli", Milli, "the busiest 134 ms of the last brake period", Signal("cpu-peak")),
        field("measured.exclusive_milli", Milli, "exclusive CPUs of pods", Signal("exclusive-cpus")),
        field("measured.steal_milli", Milli, "CPU time that the hypervisor gave to other guests", Signal("steal")),
        field("measured.switches_per_s", PerSecond, "context switches", Signal("switches")),
        field("measured.lost_windows", Count, "windows of 8.39 ms that were lost in the second", DocumentOnly("a frame with lost windows is invalid, which the coverage shows")),
        field("measured.mem_used_bytes", Bytes, "memory in use", Signal("memory-used")),
        field("measured.mem_available_bytes", Bytes, "memory available without swapping", Signal("memory-available")),
        field("measured.mem_spare_bytes", Bytes, "least memory above the hard eviction threshold in the last brake period", Signal("memory-spare")),
        field("measured.working_set_bytes", Bytes, "working set of all pods", Signal("working-set")),
        field("measured.direct_reclaim_ms", Millis, "time in direct reclaim in the last brake period", Signal("direct-reclaim")),
        field("measured.refault_mb_s", MegabytesPerSecond, "refaults of reclaimed pages", Signal("refaults")),
        field("measured.swap_out_mb_s", MegabytesPerSecond, "pages swapped out", Signal("swap-out")),
        field("measured.limit_hits", Count, "times kubepods reached its memory limit in the last brake period", Signal("limit-hits")),
        field("measured.oom_kills", Count, "global OOM kills since the agent started", Signal("oom-kills")),
        field("measured.sigma8_ppm", Ppm, "share of windows without an idle CPU", Signal("sigma8")),
        field("measured.runq_p50_us", Micros, "wait for a CPU, median by waiting time", Signal("run-queue-p50")),
        field("measured.runq_p99_us", Micros, "wait for a CPU, 99th percentile by waiting time", Signal("run-queue-p99")),
        field("measured.burst_ppm", Ppm, "134 ms peak over mean", Signal("burst")),
        field("measured.psi_cpu_some_ppm", Ppm, "CPU pressure, some", Signal("psi-cpu")),
        field("measured.psi_mem_some_ppm", Ppm, "memory pressure, some", Signal("psi-memory-some")),
        field("measured.psi_mem_full_ppm", Ppm, "memory pressure, full", Signal("psi-memory-full")),
        field("resources[].name", Text, "`cpu` or `memory`", Column("CPU, MEMORY")),
        field("resources[].unit", Text, "`milli` or `bytes`", DocumentOnly("tables print it next to amounts")),
        field("resources[].capacity", OfResource, "physical capacity", Row("C", |of| Some(amount(of.capacity)))),
        field("resources[].raw", OfResource, "raw allocatable", Row("A", |of| Some(amount(of.raw)))),
        field("resources[].safe", OfResource, "safe use", Row("T", |of| Some(amount(of.safe)))),
        field("resources[].peak", OfResource, "expected peak", Row("P0", |of| Some(amount(of.peak)))),
        field("resources[].history.highest", OfResource, "highest conditioned peak of a frame", Row("max H", |of| Some(amount(of.history?.highest)))),
        field("resources[].history.frames_ago", Count, "frames since the highest peak", Row("age", |of| Some(amount(of.history?.frames_ago)))),
        field("resources[].history.last", OfResource, "conditioned peak of the last valid frame", Row("H", |of| Some(amount(of.history?.last)))),
        field("resources[].history.climb", OfResource, "worst climb of memory in half an hour", Row("G", |of| Some(amount(of.history?.climb)))),
        field("resources[].predicted_peak", OfResource, "predicted peak", Row("P", |of| Some(amount(of.predicted_peak)))),
        field("resources[].warm_requests", OfResource, "warm requests", Row("Rw", |of| Some(amount(of.warm_requests)))),
        field("resources[].bound", OfResource, "requests of all bound pods", Row("R", |of| Some(amount(of.bound)))),
        field("resources[].slack", OfResource, "slack", Row("S", |of| Some(of.slack))),
        field("resources[].target_cents", Cents, "target ratio", Row("target", |of| Some(of.target_cents.into()))),
        field("resources[].published_cents", Cents, "published ratio", Row("published", |of| Some(of.published_cents.into()))),
        field("resources[].coverage_ppm", Ppm, "valid share of the history", Row("coverage", |of| Some(of.coverage_ppm.into()))),
        field("resources[].confidence_ppm", Ppm, "smaller of the coverage and the trusted share of requests", Row("confidence", |of| Some(of.confidence_ppm.into()))),
        field("resources[].margin_ppm", Ppm, "margin on the peak", Row("margin", |of| Some(of.margin_ppm.into()))),
        field("resources[].calibration.accumulator_ppm", Ppm, "margin as calibrated by outcomes, before its limit", Row("M", |of| Some(of.calibration.accumulator_ppm.into()))),
        field("resources[].calibration.is_latched", Flag, "not amplified because of bad outcomes", Row("latched", |of| Some(of.calibration.is_latched.into()))),
        field("resources[].brake", Level, "level of the active brake", Row("brake", |of| Some(of.brake.into()))),
        field("resources[].reasons[]", Text, "reason codes, most important first", Line),
        field("pods.tracked", Count, "pods whose use is read", Line),
        field("pods.untracked", Count, "pods beyond the limit, charged in full", Line),
        field("pods.unreadable", Count, "cgroups that look like a pod's but have no UID in their name", Line),
        field("seq", Count, "number of the last report; 0 before the first", Line),
        field("generation", Count, "generation of the pod store behind the numbers", Line),
        field("streams[].peer", Text, "address and port of a hint server", Column("SERVER")),
        field("streams[].state", Text, "`connecting`, `open` or `waiting`", Column("STATE")),
        field("streams[].is_primary", Flag, "this server nudges for the node", Column("PRIMARY")),
        field("streams[].last_ack.seq", Count, "number of the last answered report", Column("ACKED")),
        field("streams[].last_ack.verdict", Text, "`accepted`, `stale`, `rejected` or `unspecified`", Column("VERDICT")),
        field("streams[].last_ack.reason", Text, "reason; empty if accepted", Column("VERDICT")),
        field("streams[].last_problem", Text, "reason why there is no stream", Column("PROBLEM")),
        field("signals[].name", Text, "name of the signal", Column("SIGNAL")),
        field("signals[].source", Text, "hooks or files that it comes from on this node", Column("SOURCE")),
        field("signals[].health", Text, "`ok`, `unsupported` or `failed`", Column("HEALTH")),
        field("signals[].unit", Text, "unit of the value", Column("VALUE")),
        field("signals[].value", OfSignal, "the last measurement; null if there is none", Column("VALUE")),
        field("signals[].missing", Text, "effect of the missing signal, and the cause", Column("MISSING")),
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

/// Amount as a signed number, saturated at the largest value that slack can have.
fn amount(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
