//! CPUs that the kubelet's static CPU manager gave to containers: their cpusets are narrower than kubepods'.

use std::path::Path;

use super::{Kubepods, Name, Pod, Tree, Version, entries, parsed};
use crate::sample::{SampleError, procfs::CpuSet};

/// A pod with containers that may not run everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    /// The pod.
    pub pod: Pod,
    /// How many CPUs each of those containers may run on, without order. Containers that share what the manager has
    /// not given away are among them: theirs are many.
    pub cpus: Vec<u32>,
}

impl Kubepods {
    /// The Guaranteed pods that have a container with fewer CPUs than kubepods; none without cpusets. Only they are
    /// ever given CPUs, and they lie outside the two other classes.
    ///
    /// # Errors
    /// When a file or directory is there but cannot be read or parsed.
    pub fn confined(&self) -> Result<Vec<Confined>, SampleError> {
        let Some(tree) = &self.cpuset else {
            return Ok(Vec::new());
        };
        let Some(all) = tree.cpus(&tree.path)? else {
            return Ok(Vec::new());
        };
        let mut confined = Vec::new();
        for entry in entries(&tree.path)? {
            let Name::Pod(uid) = self.driver.name(&tree.path, &entry.name) else {
                continue;
            };
            let folder = tree.path.join(&entry.name);
            let mut cpus = Vec::new();
            for container in entries(&folder)? {
                let own = tree.cpus(&folder.join(container.name))?;
                cpus.extend(own.map(|own| own.count()).filter(|own| *own < all.count()));
            }
            if !cpus.is_empty() {
                let path = entry.name.into();
                let pod = Pod { uid, path };
                confined.push(Confined { pod, cpus });
            }
        }
        Ok(confined)
    }
}

impl Tree {
    /// The CPUs that a cgroup may use; `None` if it is gone or has no set of its own.
    fn cpus(&self, folder: &Path) -> Result<Option<CpuSet>, SampleError> {
        let name = match self.version {
            Version::V1 => "cpuset.cpus",
            Version::V2 => "cpuset.cpus.effective",
        };
        let set = parsed(&folder.join(name), |text| {
            // A cgroup of version 1 has none before somebody gives it some.
            (!text.trim().is_empty()).then(|| CpuSet::parse(text)).transpose()
        })?;
        Ok(set.flatten())
    }
}

#[cfg(test)]
mod tests;
