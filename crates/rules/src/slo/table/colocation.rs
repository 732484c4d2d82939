//! Members of `colocation-config`.

use super::{ANY, COUNT, MemberRow, PERCENTAGE, POSITIVE, Rule, SWITCH, Unit, ValueKind, WORD};

const CALCULATE: &[&str] = &["usage", "request", "maxUsageRequest"];

/// Template for shares of mid-tier resources.
const MID: MemberRow = MemberRow {
    default: &["0"],
    ..PERCENTAGE
};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "enable",
        go: "Enable",
        since: Some("0.1"),
        about: "Enables co-location of batch workloads. An entry of nodeConfigs can enable it only if the cluster-wide setting is true.",
        ..SWITCH
    },
    MemberRow {
        member: "metricAggregateDurationSeconds",
        go: "MetricAggregateDurationSeconds",
        kind: ValueKind::Int64,
        unit: Unit::Seconds,
        rules: COUNT,
        default: &["300"],
        about: "Time over which usage is averaged.",
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
        about: "Interval at which a node reports its usage.",
        ..ANY
    },
    MemberRow {
        member: "metricAggregatePolicy.durations[]",
        go: "MetricAggregatePolicy.Durations",
        kind: ValueKind::Duration,
        default: &["5m, 10m, 30m"],
        since: Some("1.1"),
        about: "Times over which usage percentiles are reported.",
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
        about: "Pages that count as used memory.",
        ..WORD
    },
    MemberRow {
        member: "cpuReclaimThresholdPercent",
        go: "CPUReclaimThresholdPercent",
        rules: POSITIVE,
        default: &["60"],
        since: Some("0.1"),
        about: "Share of CPU that all workloads may use together.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuCalculatePolicy",
        go: "CPUCalculatePolicy",
        words: CALCULATE,
        default: &["usage"],
        since: Some("1.4"),
        about: "CPU of other pods that is subtracted from batch CPU.",
        ..WORD
    },
    MemberRow {
        member: "memoryReclaimThresholdPercent",
        go: "MemoryReclaimThresholdPercent",
        rules: POSITIVE,
        default: &["65"],
        since: Some("0.1"),
        about: "Share of memory that all workloads may use together.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryCalculatePolicy",
        go: "MemoryCalculatePolicy",
        words: CALCULATE,
        default: &["usage"],
        since: Some("1.0"),
        about: "Memory of other pods that is subtracted from batch memory.",
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
        about: "Maximum age of a node's report; with an older report the node has no batch resources.",
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
        about: "Maximum interval between updates of batch resources, even if they are unchanged.",
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
        about: "Relative change of batch resources that is written immediately; 0.1 means a tenth.",
        ..ANY
    },
    MemberRow {
        member: "midReclaimMode",
        go: "MidReclaimMode",
        words: &["static"],
        since: Some("1.8"),
        about: "Method of calculating mid-tier resources: `static` uses the percentages below.",
        ..WORD
    },
    MemberRow {
        member: "midCPUThresholdPercent",
        go: "MidCPUThresholdPercent",
        default: &["100"],
        since: Some("1.3"),
        about: "Maximum share of allocatable CPU for mid-tier workloads.",
        ..MID
    },
    MemberRow {
        member: "midMemoryThresholdPercent",
        go: "MidMemoryThresholdPercent",
        default: &["100"],
        since: Some("1.3"),
        about: "Maximum share of allocatable memory for mid-tier workloads.",
        ..MID
    },
    MemberRow {
        member: "midUnallocatedPercent",
        go: "MidUnallocatedPercent",
        since: Some("1.6"),
        about: "Share of unallocated resources for mid-tier workloads.",
        ..MID
    },
    MemberRow {
        member: "midStaticCPUReservedPercent",
        go: "MidStaticCPUReservedPercent",
        since: Some("1.8"),
        about: "Share of CPU for mid-tier workloads in mode `static`.",
        ..MID
    },
    MemberRow {
        member: "midStaticMemoryReservedPercent",
        go: "MidStaticMemoryReservedPercent",
        since: Some("1.8"),
        about: "Share of memory for mid-tier workloads in mode `static`.",
        ..MID
    },
    MemberRow {
        member: "batchCPUThresholdPercent",
        go: "BatchCPUThresholdPercent",
        rules: POSITIVE,
        since: Some("1.7"),
        about: "Maximum share of a node's CPU for batch workloads.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "batchMemoryThresholdPercent",
        go: "BatchMemoryThresholdPercent",
        rules: POSITIVE,
        since: Some("1.7"),
        about: "Maximum share of a node's memory for batch workloads.",
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
