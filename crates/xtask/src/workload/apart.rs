//! Pods' cgroups below folders of our own in the real hierarchies, apart from those of any kubelet: they may have limits,
//! and an agent that is told of them takes them for all that there are.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::{KUBEPODS, Process, ROOT, load::Load, pod_cgroup, remove_tree, spawn_in};

/// The v1 hierarchies that an agent accounts CPU and memory in. That of shares is not among them: pods get what CPU time
/// any other task gets.
const V1: [&str; 2] = ["cpuacct", "memory"];

/// The cgroups; removed when dropped, after the processes in them.
#[derive(Debug)]
pub struct Apart {
    /// Our folder in each hierarchy; that of memory is the last.
    roots: Vec<PathBuf>,
    mount: PathBuf,
    is_v1: bool,
    /// The program that loads are.
    program: PathBuf,
    _links: TempDir,
}

impl Apart {
    /// Makes kubepods below folders of that name, without a limit. `program` is `xtask`.
    ///
    /// # Errors
    /// If a folder cannot be made: only root may make cgroups.
    pub fn new(name: &str, program: &Path) -> Result<Self> {
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
        for folder in &apart.roots {
            apart.make(folder)?;
            apart.make(&folder.join(KUBEPODS))?;
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
        let file = memory.join(KUBEPODS).join(name);
        fs::write(&file, bytes.to_string()).with_context(|| format!("write {}", file.display()))
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
        let above = folder.parent().context("a cgroup is below a root")?;
        if !self.is_v1 {
            // Version 2 hands controllers down level by level; pods and containers need none of their own.
            let file = above.join("cgroup.subtree_control");
            fs::write(&file, "+memory").with_context(|| format!("write {}", file.display()))?;
        }
        fs::create_dir(folder)
            .with_context(|| format!("make {} (only root may make cgroups)", folder.display()))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        for root in &self.roots {
            remove_tree(root);
        }
    }
}
