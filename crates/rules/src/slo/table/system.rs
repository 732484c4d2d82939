//! Members of `system-config`.

use super::{ANY, MemberRow, OFF_ON, Rule, Unit, ValueKind};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "minFreeKbytesFactor",
        go: "MinFreeKbytesFactor",
        kind: ValueKind::Int64,
        unit: Unit::Permyriad,
        rules: &[Rule::Above(0)],
        since: Some("1.2"),
        about: "Memory that the kernel keeps free, in ten-thousandths of all.",
        ..ANY
    },
    MemberRow {
        member: "watermarkScaleFactor",
        go: "WatermarkScaleFactor",
        kind: ValueKind::Int64,
        unit: Unit::Permyriad,
        rules: &[Rule::Above(0), Rule::Max(400)],
        since: Some("1.2"),
        about: "How far apart the kernel's watermarks of free memory are.",
        ..ANY
    },
    MemberRow {
        member: "memcgReapBackGround",
        go: "MemcgReapBackGround",
        kind: ValueKind::Int64,
        unit: Unit::OffOn,
        rules: OFF_ON,
        since: Some("1.2"),
        about: "Whether cgroups that are gone are cleaned up in the background.",
        ..ANY
    },
    MemberRow {
        member: "schedGroupIdentityEnabled",
        go: "SchedGroupIdentityEnabled",
        kind: ValueKind::Int64,
        unit: Unit::OffOn,
        since: Some("1.7"),
        about: "Whether the scheduler of the kernel knows identities of groups.",
        ..ANY
    },
    MemberRow {
        member: "schedIdleSaverWmark",
        go: "SchedIdleSaverWmark",
        kind: ValueKind::Int64,
        unit: Unit::Nanoseconds,
        since: Some("1.7"),
        about: "The time for which a CPU is idle before it counts as idle.",
        ..ANY
    },
    MemberRow {
        member: "schedFeatures{}",
        go: "SchedFeatures",
        kind: ValueKind::Bool,
        about: "Features of the kernel's scheduler.",
        ..ANY
    },
    MemberRow {
        member: "pageCacheLimitEnabled",
        go: "PageCacheLimitEnabled",
        kind: ValueKind::Int64,
        unit: Unit::OffOn,
        rules: OFF_ON,
        about: "Whether the page cache of cgroups can be limited.",
        ..ANY
    },
    MemberRow {
        member: "totalNetworkBandwidth",
        go: "TotalNetworkBandwidth",
        kind: ValueKind::Quantity,
        unit: Unit::BytesPerSecond,
        default: &["0"],
        about: "The network bandwidth of a node, of which classes of service get shares.",
        ..ANY
    },
];
