//! The kubelet's names of cgroups, with either driver: the place of kubepods, and pod UIDs in cgroup names.

use std::path::{Path, PathBuf};

/// Where kubepods may be below the root of a hierarchy: the kubelet's default, and below a `kubelet` cgroup of its
/// own, as set-ups inside containers have it.
const PLACES: [(&str, Driver); 4] = [
    ("kubepods", Driver::Cgroupfs),
    ("kubepods.slice", Driver::Systemd),
    ("kubelet/kubepods", Driver::Cgroupfs),
    ("kubelet.slice/kubelet-kubepods.slice", Driver::Systemd),
];

/// The longest UID taken for one: 36 characters are usual, an API server allows no more than 63 in a name.
const MAX_UID: usize = 63;

/// Who creates cgroups for the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// The kubelet itself.
    Cgroupfs,
    /// systemd, whose slices carry the names of all slices above.
    Systemd,
}

/// What a cgroup below kubepods is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CgroupKind {
    /// A pod.
    Pod(String),
    /// The parent of the pods of one QoS class.
    Class,
    /// Named like a pod, but without a readable UID.
    Unreadable,
    /// Anything else.
    Other,
}

/// Finds kubepods in a hierarchy.
pub(super) fn kubepods(root: &Path) -> Option<(PathBuf, Driver)> {
    PLACES
        .iter()
        .map(|(place, driver)| (root.join(place), *driver))
        .find(|(path, _)| path.is_dir())
}

impl Driver {
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
