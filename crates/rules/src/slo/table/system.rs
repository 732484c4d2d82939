//! Members of `system-config`.

use super::{ANY, Field, Kind, OFF_ON, Rule, Unit};

pub(super) const FIELDS: &[Field] = &[
    Field {
        member: "minFreeKbytesFactor",
        go: "MinFreeKbytesFactor",
        kind: Kind::Int64,
        unit: Unit::Permyriad,
        rules: &[Rule::Above(0)],
        about: "Memory that the kernel keeps free, in ten-thousandths of all.",
        ..ANY
    },
    Field {
        member: "watermarkScaleFactor",
        go: "WatermarkScaleFactor",
        kind: Kind::Int64,
        unit: Unit::Permyriad,
        rules: &[Rule::Above(0), Rule::Max(400)],
        about: "How far apart the kernel's watermarks of free memory are.",
        ..ANY
    },
    Field {
        member: "memcgReapBackGround",
        go: "MemcgReapBackGround",
        kind: Kind::Int64,
        unit: Unit::OffOn,
        rules: OFF_ON,
        about: "Whether cgroups that are gone are cleaned up in the background.",
        ..ANY
    },
    Field {
        member: "schedGroupIdentityEnabled",
        go: "SchedGroupIdentityEnabled",
        kind: Kind::Int64,
        unit: Unit::OffOn,
        about: "Whether the scheduler of the kernel knows identities of groups.",
        ..ANY
    },
    Field {
        member: "schedIdleSaverWmark",
        go: "SchedIdleSaverWmark",
        kind: Kind::Int64,
        unit: Unit::Nanoseconds,
        about: "The time for which a CPU is idle before it counts as idle.",
        ..ANY
    },
    Field {
        member: "schedFeatures{}",
        go: "SchedFeatures",
        kind: Kind::Bool,
        about: "Features of the kernel's scheduler.",
        ..ANY
    },
    Field {
        member: "pageCacheLimitEnabled",
        go: "PageCacheLimitEnabled",
        kind: Kind::Int64,
        unit: Unit::OffOn,
        rules: OFF_ON,
        about: "Whether the page cache of cgroups can be limited.",
        ..ANY
    },
    Field {
        member: "totalNetworkBandwidth",
        go: "TotalNetworkBandwidth",
        kind: Kind::Quantity,
        unit: Unit::BytesPerSecond,
        default: &["0"],
        about: "The network bandwidth of a node, of which classes of service get shares.",
        ..ANY
    },
];
