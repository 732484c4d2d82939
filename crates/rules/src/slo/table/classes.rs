//! The QoS classes, and the members of `resource-qos-config` without a class.

use super::{Class, MemberRow, WORD};

/// The classes; the first four have recommended values.
pub(super) const CLASSES: &[Class] = &[
    Class {
        member: "lsrClass",
        go: "LSRClass",
    },
    Class {
        member: "lsClass",
        go: "LSClass",
    },
    Class {
        member: "beClass",
        go: "BEClass",
    },
    Class {
        member: "systemClass",
        go: "SystemClass",
    },
    Class {
        member: "cgroupRoot",
        go: "CgroupRoot",
    },
];

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "policies.cpuPolicy",
        go: "Policies.CPUPolicy",
        words: &["groupIdentity", "coreSched"],
        default: &["groupIdentity"],
        since: Some("0.6"),
        about: "Mechanism for CPU QoS.",
        ..WORD
    },
    MemberRow {
        member: "policies.netQOSPolicy",
        go: "Policies.NETQOSPolicy",
        words: &["tc", "terway-qos"],
        default: &["tc"],
        since: Some("1.5"),
        about: "Mechanism for network QoS.",
        ..WORD
    },
];
