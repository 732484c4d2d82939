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
        about: "Memory that the kernel keeps free, in ten-thousandths of total memory.",
        ..ANY
    },
    MemberRow {
        member: "watermarkScaleFactor",
        go: "WatermarkScaleFactor",
        kind: ValueKind::Int64,
        unit: Unit::Permyriad,
        rules: &[Rule::Above(0), Rule::Max(400)],
        since: Some("1.2"),
        about: "Distance between the kernel's free memory watermarks.",
        ..ANY
    },
    MemberRow {
        member: "memcgReapBackGround",
        go: "MemcgReapBackGround",
        kind: ValueKind::Int64,
        unit: Unit::OffOn,
        rules: OFF_ON,
        since: Some("1.2"),
        about: "Reclaims memory of deleted cgroups in the background.",
        ..ANY
    },
    MemberRow {
        member: "schedGroupIdentityEnabled",
        go: "SchedGroupIdentityEnabled",
        kind: ValueKind::Int64,
        unit: Unit::OffOn,
        since: Some("1.7"),
        about: "Enables group identities in the kernel's scheduler.",
        ..ANY
    },
    MemberRow {
        member: "schedIdleSaverWmark",
        go: "SchedIdleSaverWmark",
        kind: ValueKind::Int64,
        unit: Unit::Nanoseconds,
        since: Some("1.7"),
        about: "Time after which an idle CPU counts as idle.",
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
        about: "Enables page cache limits of cgroups.",
        ..ANY
    },
    MemberRow {
        member: "totalNetworkBandwidth",
        go: "TotalNetworkBandwidth",
        kind: ValueKind::Quantity,
        unit: Unit::BytesPerSecond,
        default: &["0"],
        about: "Total network bandwidth of a node, which QoS classes share.",
        ..ANY
    },
];
