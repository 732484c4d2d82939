//! Members of `resource-threshold-config`.

use super::{ANY, Field, Kind, PERCENTAGE, Rule, SWITCH, Unit, WORD};

pub(super) const FIELDS: &[Field] = &[
    Field {
        member: "enable",
        go: "Enable",
        about: "Whether batch workloads are held back and evicted.",
        ..SWITCH
    },
    Field {
        member: "cpuSuppressThresholdPercent",
        go: "CPUSuppressThresholdPercent",
        default: &["65"],
        about: "The load of the CPU from which on batch workloads are held back.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuSuppressMinPercent",
        go: "CPUSuppressMinPercent",
        about: "The share of CPU that batch workloads keep.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuSuppressPolicy",
        go: "CPUSuppressPolicy",
        words: &["cpuset", "cfsQuota"],
        default: &["cpuset"],
        about: "How batch workloads are held back.",
        ..WORD
    },
    Field {
        member: "memoryEvictThresholdPercent",
        go: "MemoryEvictThresholdPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::AboveMember("memoryEvictLowerPercent"),
        ],
        default: &["70"],
        about: "The use of memory from which on pods are evicted.",
        ..PERCENTAGE
    },
    Field {
        member: "memoryEvictLowerPercent",
        go: "MemoryEvictLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::BelowMember("memoryEvictThresholdPercent"),
        ],
        about: "The use of memory at which eviction ends; 2 below where it begins if this is not set.",
        ..PERCENTAGE
    },
    Field {
        member: "memoryAllocatableEvictThresholdPercent",
        go: "MemoryAllocatableEvictThresholdPercent",
        rules: &[
            Rule::Min(0),
            Rule::AboveMember("memoryAllocatableEvictLowerPercent"),
        ],
        about: "The share of allocatable memory in requests from which on pods are evicted.",
        ..PERCENTAGE
    },
    Field {
        member: "memoryAllocatableEvictLowerPercent",
        go: "MemoryAllocatableEvictLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::BelowMember("memoryAllocatableEvictThresholdPercent"),
        ],
        about: "The share of allocatable memory in requests at which that eviction ends.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuEvictBESatisfactionUpperPercent",
        go: "CPUEvictBESatisfactionUpperPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::AboveMember("cpuEvictBESatisfactionLowerPercent"),
        ],
        about: "The share of its CPU that a batch workload gets at which eviction ends.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuEvictBESatisfactionLowerPercent",
        go: "CPUEvictBESatisfactionLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::BelowMember("cpuEvictBESatisfactionUpperPercent"),
        ],
        about: "The share of its CPU that a batch workload gets below which pods are evicted.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuEvictBEUsageThresholdPercent",
        go: "CPUEvictBEUsageThresholdPercent",
        about: "The use by batch workloads of the CPU that they get, from which on they are evicted.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuEvictTimeWindowSeconds",
        go: "CPUEvictTimeWindowSeconds",
        kind: Kind::Int64,
        unit: Unit::Seconds,
        rules: &[Rule::Above(0)],
        about: "The time over which the use of CPU is averaged for eviction.",
        ..ANY
    },
    Field {
        member: "cpuEvictThresholdPercent",
        go: "CPUEvictThresholdPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::AboveMember("cpuEvictLowerPercent"),
        ],
        about: "The use of CPU from which on pods are evicted.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuEvictLowerPercent",
        go: "CPUEvictLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::BelowMember("cpuEvictThresholdPercent"),
        ],
        about: "The use of CPU at which eviction ends.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuAllocatableEvictThresholdPercent",
        go: "CPUAllocatableEvictThresholdPercent",
        rules: &[Rule::Min(0), Rule::AboveMember("cpuAllocatableEvictLowerPercent")],
        about: "The share of allocatable CPU in requests from which on pods are evicted.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuAllocatableEvictLowerPercent",
        go: "CPUAllocatableEvictLowerPercent",
        rules: &[
            Rule::Min(0),
            Rule::BelowMember("cpuAllocatableEvictThresholdPercent"),
        ],
        about: "The share of allocatable CPU in requests at which that eviction ends.",
        ..PERCENTAGE
    },
    Field {
        member: "cpuEvictPolicy",
        go: "CPUEvictPolicy",
        words: &["evictByRealLimit", "evictByAllocatable"],
        default: &["evictByRealLimit"],
        about: "What the CPU of batch workloads is compared with.",
        ..WORD
    },
    Field {
        member: "evictEnabledPriorityThreshold",
        go: "EvictEnabledPriorityThreshold",
        kind: Kind::Int32,
        unit: Unit::Priority,
        about: "The highest priority of a pod that may be evicted.",
        ..ANY
    },
    Field {
        member: "allocatableEvictPriorityThreshold",
        go: "AllocatableEvictPriorityThreshold",
        kind: Kind::Int32,
        unit: Unit::Priority,
        rules: &[Rule::Min(0), Rule::Max(7999)],
        about: "The highest priority of a pod that may be evicted for allocatable resources.",
        ..ANY
    },
];
