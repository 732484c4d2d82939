//! Members of `host-application-config`.

use super::{ANY, MemberRow, ValueKind, WORD};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "applications[].name",
        go: "Applications.Name",
        about: "The name of the application.",
        ..WORD
    },
    MemberRow {
        member: "applications[].priority",
        go: "Applications.Priority",
        words: &["koord-prod", "koord-mid", "koord-batch", "koord-free", ""],
        about: "Its class of priority.",
        ..WORD
    },
    MemberRow {
        member: "applications[].qos",
        go: "Applications.QoS",
        words: &["LSE", "LSR", "LS", "BE", "SYSTEM", ""],
        about: "Its class of service.",
        ..WORD
    },
    MemberRow {
        member: "applications[].cgroupPath.base",
        go: "Applications.CgroupPath.Base",
        words: &[
            "CgroupRoot",
            "Kubepods",
            "KubepodsBurstable",
            "KubepodsBesteffort",
        ],
        about: "The cgroup under which its own is.",
        ..WORD
    },
    MemberRow {
        member: "applications[].cgroupPath.parentDir",
        go: "Applications.CgroupPath.ParentDir",
        about: "The folder below that cgroup.",
        ..WORD
    },
    MemberRow {
        member: "applications[].cgroupPath.relativePath",
        go: "Applications.CgroupPath.RelativePath",
        about: "The path of its cgroup below that folder.",
        ..WORD
    },
    MemberRow {
        member: "applications[].strategy",
        go: "Applications.Strategy",
        kind: ValueKind::Object,
        about: "Reserved.",
        ..ANY
    },
];
