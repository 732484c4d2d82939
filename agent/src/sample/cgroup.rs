//! `Kubepods` finds pods in the cgroup hierarchy and reads the CPU and memory use of each. It supports cgroup version
//! 1, version 2 and both at once.
//!
//! ```text
//! driver cgroupfs: kubepods/{,burstable/,besteffort/}pod<uid>
//! driver systemd:  kubepods.slice/{,kubepods-burstable.slice/}kubepods-burstable-pod<uid, with _ for ->.slice
//! ```
//!
//! A pod may end between any two system calls here. A removed cgroup is `None`, not an error.

mod cpuset;
mod layout;
mod limit_events;
mod oom;
mod trees;

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use self::layout::CgroupKind;
pub use self::{
    cpuset::{Cpusets, PinnedPod},
    layout::Driver,
    limit_events::{LimitEvents, Ooms},
    oom::{OomCounts, PodOoms},
    trees::KubepodsPlace,
};
use super::{SampleError, psi::Psi, read_if_present};
use crate::sample::field::{FieldError, keyed, number, required};

/// Pods tracked at most. Beyond it the oldest are kept; the others are charged in full by the estimator.
pub const MAX_PODS: usize = 512;

/// Version of the hierarchy a controller is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy of its own.
    V1,
    V2,
}

/// Location of kubepods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubepods {
    cpu: Tree,
    memory: Tree,
    /// `None` on a version 1 without cpusets.
    cpuset: Option<Tree>,
    /// `None` on a version 1 that does not count tasks.
    pids: Option<Tree>,
    driver: Driver,
    /// Other trees of pods on this machine, which do not count.
    leftovers: Vec<PathBuf>,
}

/// Kubepods in the hierarchy of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tree {
    version: Version,
    path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    /// The pod's UID as the API server spells it; for a static pod, the hash the kubelet took for it.
    pub uid: String,
    /// Its cgroup, from kubepods on.
    path: PathBuf,
}

/// Result of one scan of the hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The pods, oldest first, at most [`MAX_PODS`].
    pub pods: Vec<Pod>,
    pub untracked: usize,
    /// Cgroups in the form of a pod's whose UID is unreadable.
    pub unreadable: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodMemory {
    /// Memory that is freed with the pod, in bytes: anonymous memory.
    pub low: u64,
    /// Memory that the pod may need, in bytes: its charge without inactive file pages and half of the active ones.
    pub high: u64,
}

impl Kubepods {
    /// Versions of the hierarchies of CPU accounting and memory.
    pub const fn versions(&self) -> (Version, Version) {
        (self.cpu.version, self.memory.version)
    }

    /// Lists the pods. Never to be called more often than every 5 s in production: it walks directories.
    ///
    /// # Errors
    /// If a directory is there but cannot be read.
    pub fn scan(&self) -> Result<Scan, SampleError> {
        let mut scan = Scan::default();
        let mut found = Vec::new();
        let mut classes = vec![PathBuf::new()];
        while let Some(class) = classes.pop() {
            let folder = self.cpu.path.join(&class);
            for entry in entries(&folder)? {
                let path = class.join(&entry.name);
                match self.driver.name(&folder, &entry.name) {
                    CgroupKind::Pod(uid) => found.push((entry.inode, Pod { uid, path })),
                    // Classes are the first level only, so this ends.
                    CgroupKind::Class if class.as_os_str().is_empty() => classes.push(path),
                    CgroupKind::Unreadable => scan.unreadable += 1,
                    CgroupKind::Class | CgroupKind::Other => {}
                }
            }
        }
        // The kernel numbers cgroups upwards as they are created.
        found.sort_unstable();
        scan.untracked = found.len().saturating_sub(MAX_PODS);
        scan.pods = found
            .into_iter()
            .take(MAX_PODS)
            .map(|(_inode, pod)| pod)
            .collect();
        Ok(scan)
    }

    /// CPU time of all processes of the pod so far, in nanoseconds; `None` if the pod no longer exists.
    ///
    /// # Errors
    /// If the file is there but cannot be read or parsed.
    pub fn cpu_ns(&self, pod: &Pod) -> Result<Option<u64>, SampleError> {
        self.cpu.cpu_ns(&pod.path)
    }

    /// CPU time of all pods together, in nanoseconds; `None` if kubepods no longer exists.
    ///
    /// # Errors
    /// If the file is there but cannot be read or parsed.
    pub fn total_cpu_ns(&self) -> Result<Option<u64>, SampleError> {
        self.cpu.cpu_ns(Path::new(""))
    }

    /// Memory of a pod; `None` if the pod no longer exists. Can take milliseconds on a host with many dying cgroups:
    /// once a frame, and not all pods at once.
    ///
    /// # Errors
    /// If a file is there but cannot be read or parsed.
    pub fn memory(&self, pod: &Pod) -> Result<Option<PodMemory>, SampleError> {
        Ok(self.memory.usage(&pod.path)?.map(|usage| PodMemory {
            low: usage.anonymous,
            high: usage.needed(),
        }))
    }

    /// Wk: the working set of all pods, with half of the active file pages, and swap; `None` if kubepods no longer
    /// exists.
    ///
    /// # Errors
    /// If a file is there but cannot be read or parsed.
    pub fn working_set(&self) -> Result<Option<u64>, SampleError> {
        Ok(self
            .memory
            .usage(Path::new(""))?
            .map(|usage| usage.needed().saturating_add(usage.swapped)))
    }

    /// Number of times kubepods met its own memory limit; `None` if kubepods no longer exists.
    ///
    /// # Errors
    /// If a file is there but cannot be read or parsed.
    pub fn limit_events(&self) -> Result<Option<LimitEvents>, SampleError> {
        self.memory.limit_events()
    }

    /// Memory pressure of all pods; `None` with version 1 or where the kernel keeps none.
    ///
    /// # Errors
    /// If the file is there but cannot be read or parsed.
    pub fn pressure(&self) -> Result<Option<Psi>, SampleError> {
        match self.memory.version {
            Version::V1 => Ok(None),
            Version::V2 => Psi::read(&self.memory.path.join("memory.pressure")),
        }
    }

    /// True if a process runs in the pod. False if the pod no longer exists.
    ///
    /// # Errors
    /// If a file is there but cannot be read or parsed.
    pub fn is_populated(&self, pod: &Pod) -> Result<bool, SampleError> {
        let folder = self.cpu.path.join(&pod.path);
        if self.cpu.version == Version::V2 {
            return Ok(parsed(&folder.join("cgroup.events"), |text| required(text, "populated"))? == Some(1));
        }
        // Version 1 lists only processes of the reader's PID namespace, which for an agent in a pod are its own. The number of
        // tasks covers all.
        let tasks = self
            .pids
            .as_ref()
            .map(|pids| pids.path.join(&pod.path).join("pids.current"));
        match tasks
            .map(|tasks| parsed(&tasks, |text| number::<u64>(text.trim(), "pids.current")))
            .transpose()?
            .flatten()
        {
            Some(tasks) => Ok(tasks > 0),
            None => has_processes(&folder),
        }
    }
}

/// Fields of the memory controller, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    charged: u64,
    anonymous: u64,
    active_file: u64,
    inactive_file: u64,
    swapped: u64,
}

impl Usage {
    const fn needed(&self) -> u64 {
        self.charged
            .saturating_sub(self.inactive_file)
            .saturating_sub(self.active_file / 2)
    }
}

impl Tree {
    fn cpu_ns(&self, cgroup: &Path) -> Result<Option<u64>, SampleError> {
        let folder = self.path.join(cgroup);
        match self.version {
            Version::V1 => parsed(&folder.join("cpuacct.usage"), |text| {
                number(text.trim(), "cpuacct.usage")
            }),
            Version::V2 => {
                let microseconds = parsed(&folder.join("cpu.stat"), |text| required(text, "usage_usec"))?;
                Ok(microseconds.map(|us| us.saturating_mul(1_000)))
            }
        }
    }

    fn usage(&self, cgroup: &Path) -> Result<Option<Usage>, SampleError> {
        let folder = self.path.join(cgroup);
        let (charged, prefix, anonymous) = match self.version {
            // Without the prefix the fields leave out the cgroups below.
            Version::V1 => ("memory.usage_in_bytes", "total_", "rss"),
            Version::V2 => ("memory.current", "", "anon"),
        };
        let whole = |text: &str| number(text.trim(), charged);
        let Some(charged) = parsed(&folder.join(charged), whole)? else {
            return Ok(None);
        };
        let stat = parsed(&folder.join("memory.stat"), |text| {
            let field = |name: &str| required(text, &format!("{prefix}{name}"));
            Ok(Usage {
                charged,
                anonymous: field(anonymous)?,
                active_file: field("active_file")?,
                inactive_file: field("inactive_file")?,
                swapped: keyed(text, "total_swap")?.unwrap_or(0),
            })
        })?;
        let Some(usage) = stat else { return Ok(None) };
        Ok(Some(match self.version {
            Version::V1 => usage,
            Version::V2 => {
                let swapped = parsed(&folder.join("memory.swap.current"), |text| {
                    number(text.trim(), "memory.swap.current")
                })?;
                Usage {
                    swapped: swapped.unwrap_or(0),
                    ..usage
                }
            }
        }))
    }
}

struct Entry {
    name: String,
    inode: u64,
}

/// Sub-directories of a directory; none if it no longer exists.
fn entries(folder: &Path) -> Result<Vec<Entry>, SampleError> {
    let failed = |source| SampleError::Read {
        path: folder.to_owned(),
        source,
    };
    let listing = match fs::read_dir(folder) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        listing => listing.map_err(failed)?,
    };
    let mut entries = Vec::new();
    for entry in listing {
        let entry = match entry {
            Err(error) if is_gone(&error) => continue,
            entry => entry.map_err(failed)?,
        };
        if let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata())
            && metadata.is_dir()
        {
            entries.push(Entry {
                name,
                inode: metadata.ino(),
            });
        }
    }
    Ok(entries)
}

/// Version 1 lists only the processes of a cgroup itself, not of those below.
fn has_processes(folder: &Path) -> Result<bool, SampleError> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if read_if_present(&folder.join("cgroup.procs"))?.is_some_and(|list| !list.trim().is_empty()) {
            return Ok(true);
        }
        folders.extend(entries(&folder)?.into_iter().map(|entry| folder.join(entry.name)));
    }
    Ok(false)
}

fn parsed<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, FieldError>,
) -> Result<Option<T>, SampleError> {
    let Some(text) = read_if_present(path)? else {
        return Ok(None);
    };
    parse(&text)
        .map(Some)
        .map_err(|fault| SampleError::field(path, fault))
}

/// A cgroup that is removed yields "not found" at open and "no such device" afterwards.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    error.kind() == io::ErrorKind::NotFound || errno == Some(rustix::io::Errno::NODEV)
}

#[cfg(test)]
mod tests;
