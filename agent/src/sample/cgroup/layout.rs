//! The kubelet's names of cgroups, with either driver: the place of kubepods, and pod UIDs in cgroup names.

use std::path::Path;

/// Possible places of kubepods below the root of a hierarchy: the kubelet's default, and below a `kubelet` cgroup, as
/// in kubelets that run in containers.
pub(super) const PLACES: [(&str, Driver); 4] = [
    ("kubepods", Driver::Cgroupfs),
    ("kubepods.slice", Driver::Systemd),
    ("kubelet/kubepods", Driver::Cgroupfs),
    ("kubelet.slice/kubelet-kubepods.slice", Driver::Systemd),
];

/// Maximum length of a UID: 36 characters are usual, and an API server allows at most 63 in a name.
const MAX_UID: usize = 63;

/// Creator of the kubelet's cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Cgroupfs,
    /// systemd, whose slices carry the names of all slices above.
    Systemd,
}

/// Kind of a cgroup below kubepods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CgroupKind {
    Pod(String),
    /// The parent of the pods of one QoS class.
    Class,
    /// Named like a pod, but without a readable UID.
    Unreadable,
    Other,
}

impl Driver {
    /// Name of the driver in the configuration of a kubelet.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        }
    }

    /// Reads the name of a cgroup that lies in `parent`.
    pub(super) fn name(self, parent: &Path, name: &str) -> CgroupKind {
        let part = match self {
            Self::Cgroupfs => Some(name),
            Self::Systemd => parent
                .file_name()
                .and_then(|parent| parent.to_str()?.strip_suffix(".slice"))
                .and_then(|stem| name.strip_suffix(".slice")?.strip_prefix(stem)?.strip_prefix('-')),
        };
        let Some(part) = part else {
            return CgroupKind::Other;
        };
        if matches!(part, "burstable" | "besteffort") {
            return CgroupKind::Class;
        }
        let Some(uid) = part.strip_prefix("pod") else {
            return CgroupKind::Other;
        };
        let uid = match self {
            Self::Cgroupfs => uid.to_owned(),
            // In the name of a slice a dash starts the next level, so systemd has the kubelet write something else.
            Self::Systemd => uid.replace('_', "-"),
        };
        let is_uid = !uid.is_empty()
            && uid.len() <= MAX_UID
            && uid
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_uid {
            CgroupKind::Pod(uid)
        } else {
            CgroupKind::Unreadable
        }
    }
}
