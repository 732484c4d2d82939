//! `Kubepods::cpusets` finds CPUs that the kubelet's static CPU manager gave to containers. The cpusets of such
//! containers are narrower than that of kubepods.

use std::path::{Path, PathBuf};

use super::{CgroupKind, Kubepods, Pod, Tree, Version, entries, parsed};
use crate::sample::{SampleError, cpus::CpuSet, field::FieldError};

/// A pod with containers that may not run everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedPod {
    pub pod: Pod,
    /// CPUs that each of those containers may run on, unordered. Containers that share the CPUs that the manager has
    /// not assigned are included: they have many.
    pub cpus: Vec<CpuSet>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpusets {
    /// CPUs that pods may run on; `None` if there is no cpuset.
    pub all: Option<CpuSet>,
    /// The pods with containers that may run on fewer.
    pub confined: Vec<PinnedPod>,
}

impl Kubepods {
    /// CPUs that pods may run on; `None` if there is no cpuset.
    ///
    /// # Errors
    /// If the file is there but cannot be read or parsed.
    pub fn cpus(&self) -> Result<Option<CpuSet>, SampleError> {
        self.cpuset
            .as_ref()
            .map_or(Ok(None), |tree| tree.cpus(&tree.path))
    }

    /// The CPUs of kubepods, and the Guaranteed pods that have a container with fewer; none without cpusets. Only they are
    /// ever given CPUs, and they lie outside the two other classes.
    ///
    /// # Errors
    /// If a file or directory is there but cannot be read or parsed.
    pub fn cpusets(&self) -> Result<Cpusets, SampleError> {
        let (Some(tree), Some(all)) = (&self.cpuset, self.cpus()?) else {
            return Ok(Cpusets::default());
        };
        let mut confined = Vec::new();
        for entry in entries(&tree.path)? {
            let CgroupKind::Pod(uid) = self.driver.name(&tree.path, &entry.name) else {
                continue;
            };
            let folder = tree.path.join(&entry.name);
            let mut cpus = Vec::new();
            for container in entries(&folder)? {
                let own = tree.cpus(&folder.join(container.name))?;
                cpus.extend(own.filter(|own| own.count() < all.count()));
            }
            if !cpus.is_empty() {
                let path = entry.name.into();
                let pod = Pod { uid, path };
                confined.push(PinnedPod { pod, cpus });
            }
        }
        Ok(Cpusets {
            all: Some(all),
            confined,
        })
    }

    /// The file with the CPUs of kubepods, for messages.
    pub fn cpuset_path(&self) -> Option<PathBuf> {
        self.cpuset.as_ref().map(|tree| tree.path.join(tree.cpus_file()))
    }
}

impl Tree {
    /// CPUs that a cgroup may use; `None` if it no longer exists or has no set of its own.
    fn cpus(&self, folder: &Path) -> Result<Option<CpuSet>, SampleError> {
        let set = parsed(&folder.join(self.cpus_file()), |text| {
            match (self.version, text.trim().is_empty()) {
                (_, false) => CpuSet::parse(text).map(Some),
                // A new cgroup of version 1 has none until they are assigned.
                (Version::V1, true) => Ok(None),
                (Version::V2, true) => Err(FieldError::missing("cpu list")),
            }
        })?;
        Ok(set.flatten())
    }

    const fn cpus_file(&self) -> &'static str {
        match self.version {
            Version::V1 => "cpuset.cpus",
            Version::V2 => "cpuset.cpus.effective",
        }
    }
}

#[cfg(test)]
mod tests;
