//! Members of `host-application-config`.

use super::{ANY, MemberRow, ValueKind, WORD};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "applications[].name",
        go: "Applications.Name",
        since: Some("1.4"),
        about: "Name of the application.",
        ..WORD
    },
    MemberRow {
        member: "applications[].priority",
        go: "Applications.Priority",
        words: &["koord-prod", "koord-mid", "koord-batch", "koord-free", ""],
        since: Some("1.4"),
        about: "Priority band of the application.",
        ..WORD
    },
    MemberRow {
        member: "applications[].qos",
        go: "Applications.QoS",
        words: &["LSE", "LSR", "LS", "BE", "SYSTEM", ""],
        since: Some("1.4"),
        about: "QoS class of the application.",
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
        about: "Cgroup that contains the application's cgroup.",
        ..WORD
    },
    MemberRow {
        member: "applications[].cgroupPath.parentDir",
        go: "Applications.CgroupPath.ParentDir",
        since: Some("1.4"),
        about: "Directory below that cgroup.",
        ..WORD
    },
    MemberRow {
        member: "applications[].cgroupPath.relativePath",
        go: "Applications.CgroupPath.RelativePath",
        since: Some("1.4"),
        about: "Path of the application's cgroup below that directory.",
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
