//! Members of `resource-threshold-config`.

use super::{ANY, MemberRow, PERCENTAGE, Rule, SWITCH, Unit, ValueKind, WORD};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "enable",
        go: "Enable",
        since: Some("0.1"),
        about: "Enables suppression and eviction of batch workloads.",
        ..SWITCH
    },
    MemberRow {
        member: "cpuSuppressThresholdPercent",
        go: "CPUSuppressThresholdPercent",
        default: &["65"],
        since: Some("0.1"),
        about: "CPU utilization at which batch workloads are suppressed.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuSuppressMinPercent",
        go: "CPUSuppressMinPercent",
        since: Some("1.7"),
        about: "Minimum share of CPU for batch workloads.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuSuppressPolicy",
        go: "CPUSuppressPolicy",
        words: &["cpuset", "cfsQuota"],
        default: &["cpuset"],
        since: Some("0.1"),
        about: "Mechanism for suppressing batch workloads.",
        ..WORD
    },
    MemberRow {
        member: "memoryEvictThresholdPercent",
        go: "MemoryEvictThresholdPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::AboveMember("memoryEvictLowerPercent"),
        ],
        default: &["70"],
        since: Some("0.2"),
        about: "Memory utilization at which eviction of pods starts.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryEvictLowerPercent",
        go: "MemoryEvictLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::BelowMember("memoryEvictThresholdPercent"),
        ],
        since: Some("0.2"),
        about: "Memory utilization at which eviction ends; by default 2 below the start.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryAllocatableEvictThresholdPercent",
        go: "MemoryAllocatableEvictThresholdPercent",
        rules: &[
            Rule::Min(0),
            Rule::AboveMember("memoryAllocatableEvictLowerPercent"),
        ],
        since: Some("1.8"),
        about: "Share of allocatable memory in requests at which eviction of pods starts.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryAllocatableEvictLowerPercent",
        go: "MemoryAllocatableEvictLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::BelowMember("memoryAllocatableEvictThresholdPercent"),
        ],
        since: Some("1.8"),
        about: "Share of allocatable memory in requests at which this eviction ends.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuEvictBESatisfactionUpperPercent",
        go: "CPUEvictBESatisfactionUpperPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::AboveMember("cpuEvictBESatisfactionLowerPercent"),
        ],
        since: Some("0.4"),
        about: "CPU satisfaction of a batch workload (its actual share of requested CPU) at which eviction ends.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuEvictBESatisfactionLowerPercent",
        go: "CPUEvictBESatisfactionLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::BelowMember("cpuEvictBESatisfactionUpperPercent"),
        ],
        since: Some("0.4"),
        about: "CPU satisfaction of a batch workload below which pods are evicted.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuEvictBEUsageThresholdPercent",
        go: "CPUEvictBEUsageThresholdPercent",
        since: Some("1.1"),
        about: "Utilization of their CPU by batch workloads at which eviction starts.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuEvictTimeWindowSeconds",
        go: "CPUEvictTimeWindowSeconds",
        kind: ValueKind::Int64,
        unit: Unit::Seconds,
        rules: &[Rule::Above(0)],
        since: Some("0.4"),
        about: "Time over which CPU utilization is averaged for eviction.",
        ..ANY
    },
    MemberRow {
        member: "cpuEvictThresholdPercent",
        go: "CPUEvictThresholdPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::AboveMember("cpuEvictLowerPercent"),
        ],
        since: Some("1.7"),
        about: "CPU utilization at which eviction of pods starts.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuEvictLowerPercent",
        go: "CPUEvictLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::BelowMember("cpuEvictThresholdPercent"),
        ],
        since: Some("1.7"),
        about: "CPU utilization at which eviction ends.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuAllocatableEvictThresholdPercent",
        go: "CPUAllocatableEvictThresholdPercent",
        rules: &[Rule::Min(0), Rule::AboveMember("cpuAllocatableEvictLowerPercent")],
        since: Some("1.8"),
        about: "Share of allocatable CPU in requests at which eviction of pods starts.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuAllocatableEvictLowerPercent",
        go: "CPUAllocatableEvictLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::BelowMember("cpuAllocatableEvictThresholdPercent"),
        ],
        since: Some("1.8"),
        about: "Share of allocatable CPU in requests at which this eviction ends.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuEvictPolicy",
        go: "CPUEvictPolicy",
        words: &["evictByRealLimit", "evictByAllocatable"],
        default: &["evictByRealLimit"],
        since: Some("1.4"),
        about: "Reference for the CPU of batch workloads.",
        ..WORD
    },
    MemberRow {
        member: "evictEnabledPriorityThreshold",
        go: "EvictEnabledPriorityThreshold",
        kind: ValueKind::Int32,
        unit: Unit::Priority,
        since: Some("1.7"),
        about: "Highest priority of a pod that may be evicted.",
        ..ANY
    },
    MemberRow {
        member: "allocatableEvictPriorityThreshold",
        go: "AllocatableEvictPriorityThreshold",
        kind: ValueKind::Int32,
        unit: Unit::Priority,
        rules: &[Rule::Min(0), Rule::Max(7999)],
        since: Some("1.8"),
        about: "Highest priority of a pod that may be evicted for allocatable resources.",
        ..ANY
    },
];
