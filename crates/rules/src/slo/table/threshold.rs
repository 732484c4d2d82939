//! Members of `resource-threshold-config`.

use super::{ANY, MemberRow, PERCENTAGE, Rule, SWITCH, Unit, ValueKind, WORD};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "enable",
        go: "Enable",
        since: Some("0.1"),
        about: "Whether batch workloads are held back and evicted.",
        ..SWITCH
    },
    MemberRow {
        member: "cpuSuppressThresholdPercent",
        go: "CPUSuppressThresholdPercent",
        default: &["65"],
        since: Some("0.1"),
        about: "The load of the CPU from which on batch workloads are held back.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuSuppressMinPercent",
        go: "CPUSuppressMinPercent",
        since: Some("1.7"),
        about: "The share of CPU that batch workloads keep.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuSuppressPolicy",
        go: "CPUSuppressPolicy",
        words: &["cpuset", "cfsQuota"],
        default: &["cpuset"],
        since: Some("0.1"),
        about: "How batch workloads are held back.",
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
        about: "The use of memory from which on pods are evicted.",
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
        about: "The use of memory at which eviction ends; 2 below where it begins if this is not set.",
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
        about: "The share of allocatable memory in requests from which on pods are evicted.",
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
        about: "The share of allocatable memory in requests at which that eviction ends.",
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
        about: "The share of its CPU that a batch workload gets at which eviction ends.",
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
        about: "The share of its CPU that a batch workload gets below which pods are evicted.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuEvictBEUsageThresholdPercent",
        go: "CPUEvictBEUsageThresholdPercent",
        since: Some("1.1"),
        about: "The use by batch workloads of the CPU that they get, from which on they are evicted.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuEvictTimeWindowSeconds",
        go: "CPUEvictTimeWindowSeconds",
        kind: ValueKind::Int64,
        unit: Unit::Seconds,
        rules: &[Rule::Above(0)],
        since: Some("0.4"),
        about: "The time over which the use of CPU is averaged for eviction.",
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
        about: "The use of CPU from which on pods are evicted.",
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
        about: "The use of CPU at which eviction ends.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuAllocatableEvictThresholdPercent",
        go: "CPUAllocatableEvictThresholdPercent",
        rules: &[Rule::Min(0), Rule::AboveMember("cpuAllocatableEvictLowerPercent")],
        since: Some("1.8"),
        about: "The share of allocatable CPU in requests from which on pods are evicted.",
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
        about: "The share of allocatable CPU in requests at which that eviction ends.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cpuEvictPolicy",
        go: "CPUEvictPolicy",
        words: &["evictByRealLimit", "evictByAllocatable"],
        default: &["evictByRealLimit"],
        since: Some("1.4"),
        about: "What the CPU of batch workloads is compared with.",
        ..WORD
    },
    MemberRow {
        member: "evictEnabledPriorityThreshold",
        go: "EvictEnabledPriorityThreshold",
        kind: ValueKind::Int32,
        unit: Unit::Priority,
        since: Some("1.7"),
        about: "The highest priority of a pod that may be evicted.",
        ..ANY
    },
    MemberRow {
        member: "allocatableEvictPriorityThreshold",
        go: "AllocatableEvictPriorityThreshold",
        kind: ValueKind::Int32,
        unit: Unit::Priority,
        rules: &[Rule::Min(0), Rule::Max(7999)],
        since: Some("1.8"),
        about: "The highest priority of a pod that may be evicted for allocatable resources.",
        ..ANY
    },
];
