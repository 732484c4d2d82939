//! `Kubepods::pod_ooms` reads the OOM kills of pods, and how often they met a memory limit of their own. The pods'
//! cgroups keep these counts.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{Kubepods, Tree, Version, entries, parsed};
use crate::sample::{
    SampleError,
    field::{keyed, number, required},
};

/// Counts of one cgroup since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OomCounts {
    /// Processes in it that the OOM killer killed, at any limit.
    pub kills: u64,
    /// Version 2: times that nothing more could be reclaimed at its own limit, or at one below. Version 1: times that its
    /// own limit was met, which page cache does as well.
    pub at_limit: u64,
}

/// The counts by pod UID and cgroup. Version 2 sums a pod up; in version 1 the pod and each container count by themselves.
pub type PodOoms = BTreeMap<String, BTreeMap<PathBuf, OomCounts>>;

impl Kubepods {
    /// The counts of the pods, at most [`MAX_PODS`](super::MAX_PODS) of them. Walks directories: for when there was a kill,
    /// not for every poll.
    ///
    /// # Errors
    /// If a file or directory is there but cannot be read or parsed.
    pub fn pod_ooms(&self) -> Result<PodOoms, SampleError> {
        let mut ooms = PodOoms::new();
        for pod in self.scan()?.pods {
            let counts = self.memory.ooms_of(pod.path)?;
            ooms.entry(pod.uid).or_default().extend(counts);
        }
        Ok(ooms)
    }
}

impl Tree {
    /// The counts of a pod's cgroups that there are.
    fn ooms_of(&self, pod: PathBuf) -> Result<Vec<(PathBuf, OomCounts)>, SampleError> {
        let mut cgroups = match self.version {
            Version::V1 => entries(&self.path.join(&pod))?
                .into_iter()
                .map(|container| pod.join(container.name))
                .collect(),
            Version::V2 => Vec::new(),
        };
        cgroups.push(pod);
        let mut counts = Vec::with_capacity(cgroups.len());
        for cgroup in cgroups {
            if let Some(count) = self.ooms(&cgroup)? {
                counts.push((cgroup, count));
            }
        }
        Ok(counts)
    }

    /// Counts of one cgroup; `None` if it no longer exists.
    fn ooms(&self, cgroup: &Path) -> Result<Option<OomCounts>, SampleError> {
        let file = |name: &str| self.path.join(cgroup).join(name);
        match self.version {
            Version::V1 => {
                let at_limit = parsed(&file("memory.failcnt"), |text| {
                    number(text.trim(), "memory.failcnt")
                })?;
                // Kernels before 4.13 count no kills there.
                let kills = parsed(&file("memory.oom_control"), |text| {
                    Ok(keyed(text, "oom_kill")?.unwrap_or(0))
                })?;
                Ok(at_limit
                    .zip(kills)
                    .map(|(at_limit, kills)| OomCounts { kills, at_limit }))
            }
            Version::V2 => parsed(&file("memory.events"), |text| {
                Ok(OomCounts {
                    kills: required(text, "oom_kill")?,
                    at_limit: required(text, "oom")?,
                })
            }),
        }
    }
}
