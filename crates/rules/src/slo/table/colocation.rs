//! Members of `colocation-config`.

use super::{ANY, COUNT, Field, Kind, PERCENTAGE, POSITIVE, Rule, SWITCH, Unit, WORD};

const CALCULATE: &[&str] = &["usage", "request", "maxUsageRequest"];

/// A share of mid-tier resources.
const MID: Field = Field {
    default: &["0"],
    ..PERCENTAGE
};

pub(super) const FIELDS: &[Field] = &[
    Field {
        member: "enable",
        go: "Enable",
        about: "Whether batch workloads share nodes. Without it for all nodes, no entry enables any.",
        ..SWITCH
    },
    Field {
        member: "metricAggregateDurationSeconds",
        go: "MetricAggregateDurationSeconds",
        kind: Kind::Int64,
        unit: Unit::Seconds,
        rules: COUNT,
        default: &["300"],
        about: "The time over which use is averaged.",
        ..ANY
    },
    Field {
        member: "metricReportIntervalSeconds",
        go: "MetricReportIntervalSeconds",
        kind: Kind::Int64,
        unit: Unit::Seconds,
        rules: COUNT,
        default: &["60"],
        about: "How often a node reports its use.",
        ..ANY
    },
    Field {
        member: "metricAggregatePolicy.durations[]",
        go: "MetricAggregatePolicy.Durations",
        kind: Kind::Duration,
        default: &["5m, 10m, 30m"],
        about: "Times over which percentiles of use are reported.",
        ..ANY
    },
    Field {
        member: "metricMemoryCollectPolicy",
        go: "MetricMemoryCollectPolicy",
        words: &[
            "usageWithoutPageCache",
            "usageWithHotPageCache",
            "usageWithPageCache",
        ],
        default: &["usageWithoutPageCache"],
        about: "Which pages count as used memory.",
        ..WORD
    },
    Field {
        member: "cpuReclaimThresholdPercent",
        go: "CPUReclaimThresholdPercent",
        rules: POSITIVE,
        default: &["60"],
        about: "The share of CPU that all workloads may use together.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuCalculatePolicy",
        go: "CPUCalculatePolicy",
        words: CALCULATE,
        default: &["usage"],
        about: "What of other pods is left out of the CPU of batch workloads.",
        ..WORD
    },
    Field {
        member: "memoryReclaimThresholdPercent",
        go: "MemoryReclaimThresholdPercent",
        rules: POSITIVE,
        default: &["65"],
        about: "The share of memory that all workloads may use together.",
        ..PERCENTAGE
    },
    Field {
        member: "memoryCalculatePolicy",
        go: "MemoryCalculatePolicy",
        words: CALCULATE,
        default: &["usage"],
        about: "What of other pods is left out of the memory of batch workloads.",
        ..WORD
    },
    Field {
        member: "degradeTimeMinutes",
        go: "DegradeTimeMinutes",
        kind: Kind::Int64,
        unit: Unit::Minutes,
        rules: COUNT,
        default: &["15"],
        about: "How old a report may be before its node has no batch resources.",
        ..ANY
    },
    Field {
        member: "updateTimeThresholdSeconds",
        go: "UpdateTimeThresholdSeconds",
        kind: Kind::Int64,
        unit: Unit::Seconds,
        rules: COUNT,
        default: &["300"],
        about: "How often batch resources are written even if they are as before.",
        ..ANY
    },
    Field {
        member: "resourceDiffThreshold",
        go: "ResourceDiffThreshold",
        kind: Kind::Number,
        unit: Unit::Ratio,
        rules: &[Rule::Above(0), Rule::Max(1)],
        default: &["0.1"],
        about: "The change of batch resources that is written at once: 0.1 is a tenth.",
        ..ANY
    },
    Field {
        member: "midReclaimMode",
        go: "MidReclaimMode",
        words: &["static"],
        about: "How mid-tier resources are calculated.",
        ..WORD
    },
    Field {
        member: "midCPUThresholdPercent",
        go: "MidCPUThresholdPercent",
        default: &["100"],
        about: "The share of allocatable CPU that mid-tier workloads get at most.",
        ..MID
    },
    Field {
        member: "midMemoryThresholdPercent",
        go: "MidMemoryThresholdPercent",
        default: &["100"],
        about: "The share of allocatable memory that mid-tier workloads get at most.",
        ..MID
    },
    Field {
        member: "midUnallocatedPercent",
        go: "MidUnallocatedPercent",
        about: "The share of what nobody has requested that mid-tier workloads get.",
        ..MID
    },
    Field {
        member: "midStaticCPUReservedPercent",
        go: "MidStaticCPUReservedPercent",
        about: "The share of CPU that mid-tier workloads get in mode `static`.",
        ..MID
    },
    Field {
        member: "midStaticMemoryReservedPercent",
        go: "MidStaticMemoryReservedPercent",
        about: "The share of memory that mid-tier workloads get in mode `static`.",
        ..MID
    },
    Field {
        member: "batchCPUThresholdPercent",
        go: "BatchCPUThresholdPercent",
        rules: POSITIVE,
        about: "The share of a node's CPU that batch workloads get at most.",
        ..PERCENTAGE
    },
    Field {
        member: "batchMemoryThresholdPercent",
        go: "BatchMemoryThresholdPercent",
        rules: POSITIVE,
        about: "The share of a node's memory that batch workloads get at most.",
        ..PERCENTAGE
    },
    Field {
        member: "extensions",
        go: "ColocationStrategyExtender.Extensions",
        kind: Kind::Object,
        about: "Settings of extensions.",
        ..ANY
    },
];
