//! Members of each QoS class in `resource-qos-config`. Defaults are the values that agents recommend for an enabled
//! class.

use super::{
    ANY, COUNT, MemberRow, OFF_ON, PERCENT, PERCENTAGE, POSITIVE, Rule, SWITCH, Unit, ValueKind, WORD,
};

const NUMBER: MemberRow = MemberRow {
    kind: ValueKind::Int64,
    ..ANY
};
/// Template for a percentage or an amount of network bandwidth. Sums are checked as well.
const BANDWIDTH: MemberRow = MemberRow {
    kind: ValueKind::PercentOrQuantity,
    unit: Unit::BytesPerSecond,
    ..ANY
};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "cpuQOS.enable",
        go: "CPUQOS.Enable",
        since: Some("0.6"),
        about: "Enables CPU QoS.",
        ..SWITCH
    },
    MemberRow {
        member: "cpuQOS.groupIdentity",
        go: "CPUQOS.CPUQOS.GroupIdentity",
        rules: &[Rule::Min(-1), Rule::Max(2)],
        default: &["2", "2", "-1", "0"],
        since: Some("0.6"),
        about: "Group identity in the kernel's scheduler; a higher number is more urgent.",
        ..NUMBER
    },
    MemberRow {
        member: "cpuQOS.schedIdle",
        go: "CPUQOS.CPUQOS.SchedIdle",
        unit: Unit::OffOn,
        rules: OFF_ON,
        default: &["0"],
        about: "Runs the group only on idle CPUs.",
        ..NUMBER
    },
    MemberRow {
        member: "cpuQOS.coreExpeller",
        go: "CPUQOS.CPUQOS.CoreExpeller",
        default: &["true", "true", "false", "false"],
        about: "Expels idle groups from the cores on which this class runs.",
        ..SWITCH
    },
    MemberRow {
        member: "memoryQOS.enable",
        go: "MemoryQOS.Enable",
        since: Some("0.6"),
        about: "Enables memory QoS.",
        ..SWITCH
    },
    MemberRow {
        member: "memoryQOS.minLimitPercent",
        go: "MemoryQOS.MemoryQOS.MinLimitPercent",
        default: &["0"],
        since: Some("0.6"),
        about: "Share of its request that is never reclaimed from a pod.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.lowLimitPercent",
        go: "MemoryQOS.MemoryQOS.LowLimitPercent",
        default: &["0"],
        since: Some("0.6"),
        about: "Share of its request that is reclaimed from a pod only if no other memory is reclaimable.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.throttlingPercent",
        go: "MemoryQOS.MemoryQOS.ThrottlingPercent",
        default: &["0"],
        since: Some("0.6"),
        about: "Point between request and limit at which a pod is throttled; 0 means never.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.wmarkRatio",
        go: "MemoryQOS.MemoryQOS.WmarkRatio",
        default: &["95", "95", "95", "0"],
        since: Some("0.6"),
        about: "Share of its limit at which background reclaim starts; 0 means never.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.wmarkScalePermill",
        go: "MemoryQOS.MemoryQOS.WmarkScalePermill",
        unit: Unit::Permill,
        rules: &[Rule::Min(1), Rule::Max(1000)],
        default: &["20", "20", "20", "50"],
        since: Some("0.6"),
        about: "Amount of memory that background reclaim frees.",
        ..NUMBER
    },
    MemberRow {
        member: "memoryQOS.wmarkMinAdj",
        go: "MemoryQOS.MemoryQOS.WmarkMinAdj",
        rules: &[Rule::Min(-25), Rule::Max(50)],
        default: &["-25", "-25", "50", "0"],
        since: Some("0.6"),
        about: "Shift of the global reclaim watermark; a lower value means later reclaim.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.priorityEnable",
        go: "MemoryQOS.MemoryQOS.PriorityEnable",
        unit: Unit::OffOn,
        rules: OFF_ON,
        default: &["0"],
        since: Some("0.6"),
        about: "Enables OOM priorities in the kernel.",
        ..NUMBER
    },
    MemberRow {
        member: "memoryQOS.priority",
        go: "MemoryQOS.MemoryQOS.Priority",
        rules: &[Rule::Min(0), Rule::Max(12)],
        default: &["0"],
        since: Some("0.6"),
        about: "OOM priority; a lower value is killed earlier.",
        ..NUMBER
    },
    MemberRow {
        member: "memoryQOS.oomKillGroup",
        go: "MemoryQOS.MemoryQOS.OomKillGroup",
        unit: Unit::OffOn,
        rules: OFF_ON,
        default: &["0"],
        since: Some("0.6"),
        about: "Kills all processes of a group together.",
        ..NUMBER
    },
    MemberRow {
        member: "memoryQOS.pageCacheLimitPercent",
        go: "MemoryQOS.MemoryQOS.PageCacheLimitPercent",
        about: "Maximum page cache of a pod, as a share of its limit.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.pageCacheEnable",
        go: "MemoryQOS.MemoryQOS.PageCacheEnable",
        about: "Enables the page cache limit of a pod.",
        ..ANY
    },
    MemberRow {
        member: "memoryQOS.pageCacheReclaimSync",
        go: "MemoryQOS.MemoryQOS.PageCacheReclaimSync",
        about: "Reclaims excess page cache synchronously.",
        ..ANY
    },
    MemberRow {
        member: "memoryQOS.pageCacheLimitSize",
        go: "MemoryQOS.MemoryQOS.PageCacheLimitSize",
        unit: Unit::Bytes,
        about: "Maximum page cache of a pod.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.enable",
        go: "BlkIOQOS.Enable",
        about: "Enables disk QoS.",
        ..SWITCH
    },
    MemberRow {
        member: "blkioQOS.blocks[].name",
        go: "BlkIOQOS.BlkIOQOS.Blocks.Name",
        about: "Name of the device, volume group or claim.",
        ..WORD
    },
    MemberRow {
        member: "blkioQOS.blocks[].type",
        go: "BlkIOQOS.BlkIOQOS.Blocks.BlockType",
        words: &["device", "volumegroup", "podvolume"],
        about: "Type of the named object.",
        ..WORD
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.readIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ReadIOPS",
        unit: Unit::PerSecond,
        advice: POSITIVE,
        about: "Maximum rate of reads; 0 means no limit.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.writeIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.WriteIOPS",
        unit: Unit::PerSecond,
        advice: POSITIVE,
        about: "Maximum rate of writes; 0 means no limit.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.readBPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ReadBPS",
        unit: Unit::BytesPerSecond,
        advice: POSITIVE,
        about: "Maximum read throughput; 0 means no limit.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.writeBPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.WriteBPS",
        unit: Unit::BytesPerSecond,
        advice: POSITIVE,
        about: "Maximum write throughput; 0 means no limit.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.ioWeightPercent",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.IOWeightPercent",
        rules: &[],
        advice: &[Rule::Min(1), Rule::Max(100)],
        default: &["100"],
        since: Some("1.3"),
        about: "I/O weight of the group.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.readLatency",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ReadLatency",
        unit: Unit::Microseconds,
        about: "Target maximum latency of a read.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.writeLatency",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.WriteLatency",
        unit: Unit::Microseconds,
        about: "Target maximum latency of a write.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.readLatencyPercent",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ReadLatencyPercent",
        rules: &[],
        advice: PERCENT,
        since: Some("1.5"),
        about: "Share of reads that should meet the target latency.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.writeLatencyPercent",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.WriteLatencyPercent",
        rules: &[],
        advice: PERCENT,
        since: Some("1.5"),
        about: "Share of writes that should meet the target latency.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.enableUserModel",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.EnableUserModel",
        since: Some("1.5"),
        about: "Uses the following cost model of the disk.",
        ..SWITCH
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelReadBPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelReadBPS",
        unit: Unit::BytesPerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Read throughput of the disk.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelWriteBPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelWriteBPS",
        unit: Unit::BytesPerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Write throughput of the disk.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelReadSeqIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelReadSeqIOPS",
        unit: Unit::PerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Sequential reads of the disk.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelWriteSeqIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelWriteSeqIOPS",
        unit: Unit::PerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Sequential writes of the disk.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelReadRandIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelReadRandIOPS",
        unit: Unit::PerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Random reads of the disk.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelWriteRandIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelWriteRandIOPS",
        unit: Unit::PerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Random writes of the disk.",
        ..NUMBER
    },
    MemberRow {
        member: "resctrlQOS.enable",
        go: "ResctrlQOS.Enable",
        since: Some("0.6"),
        about: "Enables QoS of last-level cache and memory bandwidth.",
        ..SWITCH
    },
    MemberRow {
        member: "resctrlQOS.catRangeStartPercent",
        go: "ResctrlQOS.ResctrlQOS.CATRangeStartPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::BelowMember("catRangeEndPercent"),
        ],
        default: &["0"],
        since: Some("0.6"),
        about: "Start of the cache range.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "resctrlQOS.catRangeEndPercent",
        go: "ResctrlQOS.ResctrlQOS.CATRangeEndPercent",
        rules: &[
            Rule::Min(0),
            Rule::Max(100),
            Rule::AboveMember("catRangeStartPercent"),
        ],
        default: &["100", "100", "30", "100"],
        since: Some("0.6"),
        about: "End of the cache range.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "resctrlQOS.mbaPercent",
        go: "ResctrlQOS.ResctrlQOS.MBAPercent",
        default: &["100"],
        since: Some("0.6"),
        about: "Share of memory bandwidth.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "networkQOS.enable",
        go: "NetworkQOS.Enable",
        about: "Enables network QoS.",
        ..SWITCH
    },
    MemberRow {
        member: "networkQOS.ingressRequest",
        go: "NetworkQOS.NetworkQOS.IngressRequest",
        default: &["0"],
        about: "Guaranteed ingress bandwidth of the class.",
        ..BANDWIDTH
    },
    MemberRow {
        member: "networkQOS.ingressLimit",
        go: "NetworkQOS.NetworkQOS.IngressLimit",
        default: &["100"],
        about: "Maximum ingress bandwidth of the class.",
        ..BANDWIDTH
    },
    MemberRow {
        member: "networkQOS.egressRequest",
        go: "NetworkQOS.NetworkQOS.EgressRequest",
        default: &["0"],
        about: "Guaranteed egress bandwidth of the class.",
        ..BANDWIDTH
    },
    MemberRow {
        member: "networkQOS.egressLimit",
        go: "NetworkQOS.NetworkQOS.EgressLimit",
        default: &["100"],
        about: "Maximum egress bandwidth of the class.",
        ..BANDWIDTH
    },
];
