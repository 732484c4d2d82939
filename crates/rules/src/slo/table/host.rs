//! Members of `host-application-config`.

use super::{ANY, Field, Kind, WORD};

pub(super) const FIELDS: &[Field] = &[
    Field {
        member: "applications[].name",
        go: "Applications.Name",
        about: "The name of the application.",
        ..WORD
    },
    Field {
        member: "applications[].priority",
        go: "Applications.Priority",
        words: &["koord-prod", "koord-mid", "koord-batch", "koord-free", ""],
        about: "Its class of priority.",
        ..WORD
    },
    Field {
        member: "applications[].qos",
        go: "Applications.QoS",
        words: &["LSE", "LSR", "LS", "BE", "SYSTEM", ""],
        about: "Its class of service.",
        ..WORD
    },
    Field {
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
    Field {
        member: "applications[].cgroupPath.parentDir",
        go: "Applications.CgroupPath.ParentDir",
        about: "The folder below that cgroup.",
        ..WORD
    },
    Field {
        member: "applications[].cgroupPath.relativePath",
        go: "Applications.CgroupPath.RelativePath",
        about: "The path of its cgroup below that folder.",
        ..WORD
    },
    Field {
        member: "applications[].strategy",
        go: "Applications.Strategy",
        kind: Kind::Object,
        about: "Reserved.",
        ..ANY
    },
];
