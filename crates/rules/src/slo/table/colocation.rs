//! Members of `colocation-config`.

use super::{ANY, COUNT, MemberRow, PERCENTAGE, POSITIVE, Rule, SWITCH, Unit, ValueKind, WORD};

const CALCULATE: &[&str] = &["usage", "request", "maxUsageRequest"];

/// A share of mid-tier resources.
const MID: MemberRow = MemberRow {
    default: &["0"],
    ..PERCENTAGE
};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "enable",
        go: "Enable",
        since: Some("0.1"),
        about: "Whether batch workloads share nodes. Without it for all nodes, no entry enables any.",
        ..SWITCH
    },
    MemberRow {
        member: "metricAggregateDurationSeconds",
        go: "MetricAggregateDurationSeconds",
        kind: ValueKind::Int64,
        unit: Unit::Seconds,
        rules: COUNT,
        default: &["300"],
        about: "The time over which use is averaged.",
        ..ANY
    },
    MemberRow {
        member: "metricReportIntervalSeconds",
        go: "MetricReportIntervalSeconds",
        kind: ValueKind::Int64,
        unit: Unit::Seconds,
        rules: COUNT,
        default: &["60"],
        since: Some("0.4"),
        about: "How often a node reports its use.",
        ..ANY
    },
    MemberRow {
        member: "metricAggregatePolicy.durations[]",
        go: "MetricAggregatePolicy.Durations",
        kind: ValueKind::Duration,
        default: &["5m, 10m, 30m"],
        since: Some("1.1"),
        about: "Times over which percentiles of use are reported.",
        ..ANY
    },
    MemberRow {
        member: "metricMemoryCollectPolicy",
        go: "MetricMemoryCollectPolicy",
        words: &[
            "usageWithoutPageCache",
            "usageWithHotPageCache",
            "usageWithPageCache",
        ],
        rules: &[Rule::NotEmpty],
        default: &["usageWithoutPageCache"],
        since: Some("1.4"),
        about: "Which pages count as used memory.",
        ..WORD
    },
    MemberRow {
        member: "cpuReclaimThresholdPercent",
        go: "CPUReclaimThresholdPercent",
        rules: POSITIVE,
        default: &["60"],
        since: Some("0.1"),
        about: "The share of CPU that all workloads may use together.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuCalculatePolicy",
        go: "CPUCalculatePolicy",
        words: CALCULATE,
        default: &["usage"],
        since: Some("1.4"),
        about: "What of other pods is left out of the CPU of batch workloads.",
        ..WORD
    },
    MemberRow {
        member: "memoryReclaimThresholdPercent",
        go: "MemoryReclaimThresholdPercent",
        rules: POSITIVE,
        default: &["65"],
        since: Some("0.1"),
        about: "The share of memory that all workloads may use together.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryCalculatePolicy",
        go: "MemoryCalculatePolicy",
        words: CALCULATE,
        default: &["usage"],
        since: Some("1.0"),
        about: "What of other pods is left out of the memory of batch workloads.",
        ..WORD
    },
    MemberRow {
        member: "degradeTimeMinutes",
        go: "DegradeTimeMinutes",
        kind: ValueKind::Int64,
        unit: Unit::Minutes,
        rules: COUNT,
        default: &["15"],
        since: Some("0.1"),
        about: "How old a report may be before its node has no batch resources.",
        ..ANY
    },
    MemberRow {
        member: "updateTimeThresholdSeconds",
        go: "UpdateTimeThresholdSeconds",
        kind: ValueKind::Int64,
        unit: Unit::Seconds,
        rules: COUNT,
        default: &["300"],
        since: Some("0.1"),
        about: "How often batch resources are written even if they are as before.",
        ..ANY
    },
    MemberRow {
        member: "resourceDiffThreshold",
        go: "ResourceDiffThreshold",
        kind: ValueKind::Number,
        unit: Unit::Ratio,
        rules: &[Rule::Above(0), Rule::Max(1)],
        default: &["0.1"],
        since: Some("0.1"),
        about: "The change of batch resources that is written at once: 0.1 is a tenth.",
        ..ANY
    },
    MemberRow {
        member: "midReclaimMode",
        go: "MidReclaimMode",
        words: &["static"],
        since: Some("1.8"),
        about: "How mid-tier resources are calculated.",
        ..WORD
    },
    MemberRow {
        member: "midCPUThresholdPercent",
        go: "MidCPUThresholdPercent",
        default: &["100"],
        since: Some("1.3"),
        about: "The share of allocatable CPU that mid-tier workloads get at most.",
        ..MID
    },
    MemberRow {
        member: "midMemoryThresholdPercent",
        go: "MidMemoryThresholdPercent",
        default: &["100"],
        since: Some("1.3"),
        about: "The share of allocatable memory that mid-tier workloads get at most.",
        ..MID
    },
    MemberRow {
        member: "midUnallocatedPercent",
        go: "MidUnallocatedPercent",
        since: Some("1.6"),
        about: "The share of what nobody has requested that mid-tier workloads get.",
        ..MID
    },
    MemberRow {
        member: "midStaticCPUReservedPercent",
        go: "MidStaticCPUReservedPercent",
        since: Some("1.8"),
        about: "The share of CPU that mid-tier workloads get in mode `static`.",
        ..MID
    },
    MemberRow {
        member: "midStaticMemoryReservedPercent",
        go: "MidStaticMemoryReservedPercent",
        since: Some("1.8"),
        about: "The share of memory that mid-tier workloads get in mode `static`.",
        ..MID
    },
    MemberRow {
        member: "batchCPUThresholdPercent",
        go: "BatchCPUThresholdPercent",
        rules: POSITIVE,
        since: Some("1.7"),
        about: "The share of a node's CPU that batch workloads get at most.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "batchMemoryThresholdPercent",
        go: "BatchMemoryThresholdPercent",
        rules: POSITIVE,
        since: Some("1.7"),
        about: "The share of a node's memory that batch workloads get at most.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "extensions",
        go: "ColocationStrategyExtender.Extensions",
        kind: ValueKind::Object,
        about: "Settings of extensions.",
        ..ANY
    },
];
