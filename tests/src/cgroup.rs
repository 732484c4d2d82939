//! Cgroups in this machine's hierarchies: a Guaranteed pod's at the kubelet's path, and cgroups with a memory limit,
//! a CPU limit or the weight of a request.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::pace::as_long;

/// Mount point of the hierarchies.
const ROOT: &str = "/sys/fs/cgroup";
/// Controllers that the agent reads; with cgroup v1 each has its own hierarchy.
const CONTROLLERS: [&str; 3] = ["cpuacct", "memory", "cpuset"];

/// Limit until the last task has left a cgroup.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);

/// Removed on drop, with the folders above it that were created for it.
#[derive(Debug)]
pub struct PodCgroup {
    made: Vec<PathBuf>,
    cpus: PathBuf,
}

impl PodCgroup {
    /// Creates the cgroup; its container may use all CPUs.
    pub fn create(uid: &str) -> Self {
        let root = Path::new(ROOT);
        let is_v1 = root.join("cpuset").is_dir();
        let hierarchies = if is_v1 {
            CONTROLLERS.map(|controller| root.join(controller)).to_vec()
        } else {
            vec![root.to_owned()]
        };
        let mut made = Vec::new();
        let mut cpus = PathBuf::new();
        for hierarchy in hierarchies {
            let mut folder = hierarchy;
            for name in ["kubepods", &format!("pod{uid}"), "container"] {
                let parent = folder.clone();
                if !is_v1 {
                    // Version 2 enables controllers level by level.
                    let controllers = parent.join("cgroup.subtree_control");
                    fs::write(controllers, "+cpuset +memory").expect("hand controllers down");
                }
                folder = folder.join(name);
                if !folder.is_dir() {
                    fs::create_dir(&folder).expect("root may make cgroups");
                    made.push(folder.clone());
                }
                cpus = folder.join("cpuset.cpus");
                let all = parent.join("cpuset.cpus");
                if is_v1 && all.exists() {
                    // A new cgroup of version 1 has no CPUs.
                    fs::copy(all, &cpus).expect("give it the CPUs of its parent");
                }
            }
        }
        Self { made, cpus }
    }

    /// Confines the container to these CPUs, as the static CPU manager does.
    pub fn confine(&self, cpus: &str) {
        fs::write(&self.cpus, cpus).expect("write the cpuset");
    }
}

impl Drop for PodCgroup {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // A running demo may use the folder too.
            let _may_be_in_use = fs::remove_dir(folder);
        }
    }
}

/// A cgroup with a limit outside of kubepods; removed on drop.
#[derive(Debug)]
pub struct Limited {
    folder: PathBuf,
}

impl Limited {
    pub fn memory(name: &str, bytes: u64) -> Self {
        let limited = Self::create("memory", name);
        let bytes = bytes.to_string();
        limited.set(&[("memory.limit_in_bytes", &bytes)], &[("memory.max", &bytes)]);
        limited
    }

    /// Limits CPU to `percent` of one CPU, in periods of 100 ms.
    pub fn cpu(name: &str, percent: u64) -> Self {
        let limited = Self::create("cpu", name);
        let quota_us = (percent * 1000).to_string();
        limited.set(
            &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", &quota_us)],
            &[("cpu.max", &format!("{quota_us} 100000"))],
        );
        limited
    }

    /// Sets the weight that a kubelet sets for a request of `milli` milli-cores.
    pub fn requesting(name: &str, milli: u64) -> Self {
        let limited = Self::create("cpu", name);
        let shares = (milli * 1024 / 1000).clamp(2, 262_144);
        let weight = 1 + (shares - 2) * 9999 / 262_142;
        limited.set(
            &[("cpu.shares", &shares.to_string())],
            &[("cpu.weight", &weight.to_string())],
        );
        limited
    }

    /// Creates the cgroup directly below the root of its controller's hierarchy.
    fn create(controller: &str, name: &str) -> Self {
        let root = Path::new(ROOT);
        let own = root.join(controller);
        let parent = if own.is_dir() {
            own
        } else {
            let controllers = root.join("cgroup.subtree_control");
            fs::write(controllers, format!("+{controller}")).expect("hand the controller down");
            root.to_owned()
        };
        let folder = parent.join(name);
        fs::create_dir_all(&folder).expect("root may make cgroups");
        Self { folder }
    }

    /// Writes the files of the mounted cgroup version.
    fn set(&self, v1: &[(&str, &str)], v2: &[(&str, &str)]) {
        let is_v2 = self.folder.join("cgroup.controllers").exists();
        for (file, value) in if is_v2 { v2 } else { v1 } {
            fs::write(self.folder.join(file), value).expect("set the limit");
        }
    }

    /// File that adds a process to the cgroup.
    pub fn procs(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // A killed task leaves its cgroup a moment later.
        let deadline = Instant::now() + as_long(LEAVES_WITHIN);
        while let Err(error) = fs::remove_dir(&self.folder) {
            if Instant::now() > deadline {
                assert!(thread::panicking(), "{}: {error}", self.folder.display());
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
