//! Members of each class of service in `resource-qos-config`. Defaults are those that agents recommend for a class that is enabled.

use super::{
    ANY, COUNT, MemberRow, OFF_ON, PERCENT, PERCENTAGE, POSITIVE, Rule, SWITCH, Unit, ValueKind, WORD,
};

/// A whole number.
const NUMBER: MemberRow = MemberRow {
    kind: ValueKind::Int64,
    ..ANY
};
/// A share or an amount of network bandwidth. Sums are checked as well.
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
        about: "Whether CPU is given by class.",
        ..SWITCH
    },
    MemberRow {
        member: "cpuQOS.groupIdentity",
        go: "CPUQOS.CPUQOS.GroupIdentity",
        rules: &[Rule::Min(-1), Rule::Max(2)],
        default: &["2", "2", "-1", "0"],
        since: Some("0.6"),
        about: "The identity of the group in the kernel's scheduler: the higher, the more urgent.",
        ..NUMBER
    },
    MemberRow {
        member: "cpuQOS.schedIdle",
        go: "CPUQOS.CPUQOS.SchedIdle",
        unit: Unit::OffOn,
        rules: OFF_ON,
        default: &["0"],
        about: "Whether the group runs only where nothing else does.",
        ..NUMBER
    },
    MemberRow {
        member: "cpuQOS.coreExpeller",
        go: "CPUQOS.CPUQOS.CoreExpeller",
        default: &["true", "true", "false", "false"],
        about: "Whether idle groups leave the core on which this class runs.",
        ..SWITCH
    },
    MemberRow {
        member: "memoryQOS.enable",
        go: "MemoryQOS.Enable",
        since: Some("0.6"),
        about: "Whether memory is given by class.",
        ..SWITCH
    },
    MemberRow {
        member: "memoryQOS.minLimitPercent",
        go: "MemoryQOS.MemoryQOS.MinLimitPercent",
        default: &["0"],
        since: Some("0.6"),
        about: "The share of its request that a pod keeps whatever happens.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.lowLimitPercent",
        go: "MemoryQOS.MemoryQOS.LowLimitPercent",
        default: &["0"],
        since: Some("0.6"),
        about: "The share of its request that a pod keeps as long as others can give.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.throttlingPercent",
        go: "MemoryQOS.MemoryQOS.ThrottlingPercent",
        default: &["0"],
        since: Some("0.6"),
        about: "Where between request and limit a pod is slowed down; 0 is never.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.wmarkRatio",
        go: "MemoryQOS.MemoryQOS.WmarkRatio",
        default: &["95", "95", "95", "0"],
        since: Some("0.6"),
        about: "The share of its limit from which on memory is reclaimed in the background; 0 is never.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.wmarkScalePermill",
        go: "MemoryQOS.MemoryQOS.WmarkScalePermill",
        unit: Unit::Permill,
        rules: &[Rule::Min(1), Rule::Max(1000)],
        default: &["20", "20", "20", "50"],
        since: Some("0.6"),
        about: "How much is reclaimed then.",
        ..NUMBER
    },
    MemberRow {
        member: "memoryQOS.wmarkMinAdj",
        go: "MemoryQOS.MemoryQOS.WmarkMinAdj",
        rules: &[Rule::Min(-25), Rule::Max(50)],
        default: &["-25", "-25", "50", "0"],
        since: Some("0.6"),
        about: "How much earlier or later the kernel reclaims for all: the lower, the later.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.priorityEnable",
        go: "MemoryQOS.MemoryQOS.PriorityEnable",
        unit: Unit::OffOn,
        rules: OFF_ON,
        default: &["0"],
        since: Some("0.6"),
        about: "Whether the kernel knows priorities where memory runs out.",
        ..NUMBER
    },
    MemberRow {
        member: "memoryQOS.priority",
        go: "MemoryQOS.MemoryQOS.Priority",
        rules: &[Rule::Min(0), Rule::Max(12)],
        default: &["0"],
        since: Some("0.6"),
        about: "That priority: the lower, the sooner it is ended.",
        ..NUMBER
    },
    MemberRow {
        member: "memoryQOS.oomKillGroup",
        go: "MemoryQOS.MemoryQOS.OomKillGroup",
        unit: Unit::OffOn,
        rules: OFF_ON,
        default: &["0"],
        since: Some("0.6"),
        about: "Whether all processes of a group are ended together.",
        ..NUMBER
    },
    MemberRow {
        member: "memoryQOS.pageCacheLimitPercent",
        go: "MemoryQOS.MemoryQOS.PageCacheLimitPercent",
        about: "The share of its limit that the page cache of a pod may take.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "memoryQOS.pageCacheEnable",
        go: "MemoryQOS.MemoryQOS.PageCacheEnable",
        about: "Whether the page cache of a pod is limited.",
        ..ANY
    },
    MemberRow {
        member: "memoryQOS.pageCacheReclaimSync",
        go: "MemoryQOS.MemoryQOS.PageCacheReclaimSync",
        about: "Whether that page cache is reclaimed at once.",
        ..ANY
    },
    MemberRow {
        member: "memoryQOS.pageCacheLimitSize",
        go: "MemoryQOS.MemoryQOS.PageCacheLimitSize",
        unit: Unit::Bytes,
        about: "The size that the page cache of a pod may have.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.enable",
        go: "BlkIOQOS.Enable",
        about: "Whether disks are given by class.",
        ..SWITCH
    },
    MemberRow {
        member: "blkioQOS.blocks[].name",
        go: "BlkIOQOS.BlkIOQOS.Blocks.Name",
        about: "The device, the volume group or the claim.",
        ..WORD
    },
    MemberRow {
        member: "blkioQOS.blocks[].type",
        go: "BlkIOQOS.BlkIOQOS.Blocks.BlockType",
        words: &["device", "volumegroup", "podvolume"],
        about: "What the name names.",
        ..WORD
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.readIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ReadIOPS",
        unit: Unit::PerSecond,
        advice: POSITIVE,
        about: "Reads that are allowed; 0 is all.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.writeIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.WriteIOPS",
        unit: Unit::PerSecond,
        advice: POSITIVE,
        about: "Writes that are allowed; 0 is all.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.readBPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ReadBPS",
        unit: Unit::BytesPerSecond,
        advice: POSITIVE,
        about: "Bytes that may be read; 0 is all.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.writeBPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.WriteBPS",
        unit: Unit::BytesPerSecond,
        advice: POSITIVE,
        about: "Bytes that may be written; 0 is all.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.ioWeightPercent",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.IOWeightPercent",
        rules: &[],
        advice: &[Rule::Min(1), Rule::Max(100)],
        default: &["100"],
        since: Some("1.3"),
        about: "The weight of the group.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.readLatency",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ReadLatency",
        unit: Unit::Microseconds,
        about: "The time that a read should take at most.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.writeLatency",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.WriteLatency",
        unit: Unit::Microseconds,
        about: "The time that a write should take at most.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.readLatencyPercent",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ReadLatencyPercent",
        rules: &[],
        advice: PERCENT,
        since: Some("1.5"),
        about: "The share of reads that should keep to it.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.writeLatencyPercent",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.WriteLatencyPercent",
        rules: &[],
        advice: PERCENT,
        since: Some("1.5"),
        about: "The share of writes that should keep to it.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.enableUserModel",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.EnableUserModel",
        since: Some("1.5"),
        about: "Whether the costs of the disk are those that follow.",
        ..SWITCH
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelReadBPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelReadBPS",
        unit: Unit::BytesPerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Bytes that the disk reads.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelWriteBPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelWriteBPS",
        unit: Unit::BytesPerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Bytes that the disk writes.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelReadSeqIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelReadSeqIOPS",
        unit: Unit::PerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Reads in sequence that the disk does.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelWriteSeqIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelWriteSeqIOPS",
        unit: Unit::PerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Writes in sequence that the disk does.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelReadRandIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelReadRandIOPS",
        unit: Unit::PerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Scattered reads that the disk does.",
        ..NUMBER
    },
    MemberRow {
        member: "blkioQOS.blocks[].ioCfg.modelWriteRandIOPS",
        go: "BlkIOQOS.BlkIOQOS.Blocks.IOCfg.ModelWriteRandIOPS",
        unit: Unit::PerSecond,
        advice: COUNT,
        since: Some("1.5"),
        about: "Scattered writes that the disk does.",
        ..NUMBER
    },
    MemberRow {
        member: "resctrlQOS.enable",
        go: "ResctrlQOS.Enable",
        since: Some("0.6"),
        about: "Whether the last-level cache and memory bandwidth are given by class.",
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
        about: "Where the share of the cache begins.",
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
        about: "Where the share of the cache ends.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "resctrlQOS.mbaPercent",
        go: "ResctrlQOS.ResctrlQOS.MBAPercent",
        default: &["100"],
        since: Some("0.6"),
        about: "The share of memory bandwidth.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "networkQOS.enable",
        go: "NetworkQOS.Enable",
        about: "Whether the network is given by class.",
        ..SWITCH
    },
    MemberRow {
        member: "networkQOS.ingressRequest",
        go: "NetworkQOS.NetworkQOS.IngressRequest",
        default: &["0"],
        about: "What the class gets of what comes in.",
        ..BANDWIDTH
    },
    MemberRow {
        member: "networkQOS.ingressLimit",
        go: "NetworkQOS.NetworkQOS.IngressLimit",
        default: &["100"],
        about: "What of what comes in the class gets at most.",
        ..BANDWIDTH
    },
    MemberRow {
        member: "networkQOS.egressRequest",
        go: "NetworkQOS.NetworkQOS.EgressRequest",
        default: &["0"],
        about: "What the class gets of what goes out.",
        ..BANDWIDTH
    },
    MemberRow {
        member: "networkQOS.egressLimit",
        go: "NetworkQOS.NetworkQOS.EgressLimit",
        default: &["100"],
        about: "What of what goes out the class gets at most.",
        ..BANDWIDTH
    },
];
