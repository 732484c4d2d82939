//! Cgroups of pods as a kubelet creates them, but in a separate folder of the real hierarchies, so that they cannot collide with
//! those of a kubelet. The agent in the bench `brake_reaction` uses that folder as its cgroup mount.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::{BURSTABLE, KUBEPODS, Process, ROOT, V1, load::Load, pod_cgroup, remove_tree, spawn_in};

/// The cgroups; removed when dropped. Processes in them must end before.
#[derive(Debug)]
pub struct IsolatedCgroups {
    /// The separate folder in each hierarchy: the first has CPU accounting, the last memory accounting.
    roots: Vec<PathBuf>,
    mount: PathBuf,
    is_v1: bool,
    /// Path of the program `headroom-load`.
    program: PathBuf,
    _links: TempDir,
}

impl IsolatedCgroups {
    /// Creates `kubepods` in folders of that name, with the CPU weight of the node's allocatable. `program` is the path of
    /// `headroom-load`.
    ///
    /// # Errors
    /// If a cgroup cannot be created, which needs root.
    pub fn new(name: &str, program: &Path, allocatable_milli: u64) -> Result<Self> {
        let own = format!("headroom-{name}-{}", std::process::id());
        let links = tempfile::tempdir().context("make a folder")?;
        let root = Path::new(ROOT);
        let is_v1 = V1.iter().all(|name| root.join(name).is_dir());
        let mut roots = Vec::new();
        if is_v1 {
            for hierarchy in V1 {
                let folder = root.join(hierarchy).join(&own);
                symlink(&folder, links.path().join(hierarchy)).context("link a hierarchy")?;
                roots.push(folder);
            }
        } else {
            roots.push(root.join(&own));
        }
        let mount = if is_v1 {
            links.path().to_owned()
        } else {
            root.join(&own)
        };
        let cgroups = Self {
            roots,
            mount,
            is_v1,
            program: program.to_owned(),
            _links: links,
        };
        for root in &cgroups.roots {
            for folder in [root, &root.join(KUBEPODS), &root.join(BURSTABLE)] {
                cgroups.create(folder)?;
            }
            // The folder competes for CPU at the level of a real kubepods, so it has the same weight.
            cgroups.set_cpu_weight(root, allocatable_milli)?;
            cgroups.set_cpu_weight(&root.join(KUBEPODS), allocatable_milli)?;
        }
        Ok(cgroups)
    }

    /// Folder to pass to an agent instead of `/sys/fs/cgroup`.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Limits the total memory of all pods, as a kubelet does.
    ///
    /// # Errors
    /// If the kernel refuses the write.
    pub fn limit_memory(&self, bytes: u64) -> Result<()> {
        let name = if self.is_v1 {
            "memory.limit_in_bytes"
        } else {
            "memory.max"
        };
        let memory = self.roots.last().context("no hierarchy")?;
        write(&memory.join(KUBEPODS).join(name), bytes)
    }

    /// Creates a pod's cgroup, with the CPU weight of its request.
    ///
    /// # Errors
    /// If the kernel refuses the write.
    pub fn add_pod(&self, uid: &str, request_milli: u64) -> Result<()> {
        for root in &self.roots {
            let cgroup = pod_cgroup(root, uid);
            self.create(&cgroup)?;
            self.set_cpu_weight(&cgroup, request_milli)?;
        }
        Ok(())
    }

    /// Moves a process into a pod's cgroup.
    ///
    /// # Errors
    /// If the kernel refuses the write.
    pub fn join(&self, uid: &str, pid: u32) -> Result<()> {
        for root in &self.roots {
            write(&pod_cgroup(root, uid).join("cgroup.procs"), pid.into())?;
        }
        Ok(())
    }

    /// Starts a load in a pod's cgroup.
    ///
    /// # Errors
    /// If it cannot be started or moved into the cgroup.
    pub fn spawn(&self, uid: &str, load: &Load) -> Result<Process> {
        let cgroups = self.roots.iter().map(|root| pod_cgroup(root, uid));
        spawn_in(&self.program, &load.arguments(), cgroups)
    }

    fn create(&self, folder: &Path) -> Result<()> {
        if !self.is_v1 {
            // Cgroup v2 needs controllers to be enabled at each level.
            let parent = folder.parent().context("a cgroup is below a root")?;
            let file = parent.join("cgroup.subtree_control");
            fs::write(&file, "+cpu +memory").with_context(|| format!("write {}", file.display()))?;
        }
        if folder.is_dir() {
            // Two controllers of cgroup v1 can share a hierarchy.
            return Ok(());
        }
        fs::create_dir(folder).with_context(|| format!("create {} (needs root)", folder.display()))
    }

    /// Sets the CPU weight of a cgroup with the kubelet's formulas. No effect in hierarchies without weights.
    fn set_cpu_weight(&self, cgroup: &Path, milli: u64) -> Result<()> {
        let shares = (milli * 1024 / 1000).clamp(2, 262_144);
        let (name, weight) = if self.is_v1 {
            ("cpu.shares", shares)
        } else {
            ("cpu.weight", 1 + (shares - 2) * 9999 / 262_142)
        };
        let file = cgroup.join(name);
        if file.exists() {
            write(&file, weight)
        } else {
            Ok(())
        }
    }
}

impl Drop for IsolatedCgroups {
    fn drop(&mut self) {
        for root in &self.roots {
            remove_tree(root);
        }
    }
}

fn write(file: &Path, number: u64) -> Result<()> {
    fs::write(file, number.to_string()).with_context(|| format!("write {}", file.display()))
}
