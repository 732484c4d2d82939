//! Members of `host-application-config`.

use super::{ANY, MemberRow, ValueKind, WORD};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "applications[].name",
        go: "Applications.Name",
        since: Some("1.4"),
        about: "The name of the application.",
        ..WORD
    },
    MemberRow {
        member: "applications[].priority",
        go: "Applications.Priority",
        words: &["koord-prod", "koord-mid", "koord-batch", "koord-free", ""],
        since: Some("1.4"),
        about: "Its class of priority.",
        ..WORD
    },
    MemberRow {
        member: "applications[].qos",
        go: "Applications.QoS",
        words: &["LSE", "LSR", "LS", "BE", "SYSTEM", ""],
        since: Some("1.4"),
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
        since: Some("1.4"),
        about: "The cgroup under which its own is.",
        ..WORD
    },
    MemberRow {
        member: "applications[].cgroupPath.parentDir",
        go: "Applications.CgroupPath.ParentDir",
        since: Some("1.4"),
        about: "The folder below that cgroup.",
        ..WORD
    },
    MemberRow {
        member: "applications[].cgroupPath.relativePath",
        go: "Applications.CgroupPath.RelativePath",
        since: Some("1.4"),
        about: "The path of its cgroup below that folder.",
        ..WORD
    },
    MemberRow {
        member: "applications[].strategy",
        go: "Applications.Strategy",
        kind: ValueKind::Object,
        since: Some("1.4"),
        about: "Reserved.",
        ..ANY
    },
];
