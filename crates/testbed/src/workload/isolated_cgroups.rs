//! Pods' cgroups as the kubelet makes them, but below separate folders of the real hierarchies, apart from those of any
//! kubelet. The agent in the bench `brake_reaction` gets their mount and takes them for all cgroups there are.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::{BURSTABLE, KUBEPODS, Process, ROOT, V1, load::Load, pod_cgroup, remove_tree, spawn_in};

/// The cgroups; removed when dropped, after the processes in them.
#[derive(Debug)]
pub struct IsolatedCgroups {
    /// Our folder in each hierarchy: the first has CPU time, the last memory.
    roots: Vec<PathBuf>,
    mount: PathBuf,
    is_v1: bool,
    /// The program that loads are.
    program: PathBuf,
    _links: TempDir,
}

impl IsolatedCgroups {
    /// Makes kubepods below folders of that name, with the weight of all that is allocatable on the node. `program` is
    /// `headroom-load`.
    ///
    /// # Errors
    /// If a folder cannot be made: only root may make cgroups.
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
        let apart = Self {
            roots,
            mount,
            is_v1,
            program: program.to_owned(),
            _links: links,
        };
        for root in &apart.roots {
            for folder in [root, &root.join(KUBEPODS), &root.join(BURSTABLE)] {
                apart.make(folder)?;
            }
            // Ours stands where kubepods would.
            apart.weigh(root, allocatable_milli)?;
            apart.weigh(&root.join(KUBEPODS), allocatable_milli)?;
        }
        Ok(apart)
    }

    /// What stands for `/sys/fs/cgroup` to an agent.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Limits the memory of all pods together, as the kubelet does.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn limit_memory(&self, bytes: u64) -> Result<()> {
        let name = if self.is_v1 {
            "memory.limit_in_bytes"
        } else {
            "memory.max"
        };
        let memory = self.roots.last().context("no hierarchy")?;
        write(&memory.join(KUBEPODS).join(name), bytes)
    }

    /// Makes a pod's cgroup, with the weight of its CPU request.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add_pod(&self, uid: &str, request_milli: u64) -> Result<()> {
        for root in &self.roots {
            let cgroup = pod_cgroup(root, uid);
            self.make(&cgroup)?;
            self.weigh(&cgroup, request_milli)?;
        }
        Ok(())
    }

    /// Moves a process into a pod's cgroup.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn join(&self, uid: &str, pid: u32) -> Result<()> {
        for root in &self.roots {
            write(&pod_cgroup(root, uid).join("cgroup.procs"), pid.into())?;
        }
        Ok(())
    }

    /// Starts a load in a pod's cgroup.
    ///
    /// # Errors
    /// If it cannot be started or put there.
    pub fn spawn(&self, uid: &str, load: &Load) -> Result<Process> {
        let cgroups = self.roots.iter().map(|root| pod_cgroup(root, uid));
        spawn_in(&self.program, &load.arguments(), cgroups)
    }

    fn make(&self, folder: &Path) -> Result<()> {
        if !self.is_v1 {
            // Version 2 hands controllers down level by level.
            let above = folder.parent().context("a cgroup is below a root")?;
            let file = above.join("cgroup.subtree_control");
            fs::write(&file, "+cpu +memory").with_context(|| format!("write {}", file.display()))?;
        }
        if folder.is_dir() {
            // Two controllers of version 1 can share a hierarchy.
            return Ok(());
        }
        fs::create_dir(folder)
            .with_context(|| format!("make {} (only root may make cgroups)", folder.display()))
    }

    /// Gives a cgroup its weight by the kubelet's formulas, in hierarchies that have weights.
    fn weigh(&self, cgroup: &Path, milli: u64) -> Result<()> {
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
