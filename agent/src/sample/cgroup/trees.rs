//! Finds the tree of the pods' cgroups. After a change of the kubelet's cgroup driver, the tree of the former driver stays
//! until the machine restarts, so of several trees the one with running pods counts.

use std::path::{Path, PathBuf};

use super::{
    Kubepods, Tree, Version,
    layout::{Driver, PLACES},
};

/// Location of the pods' cgroups, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubepodsPlace {
    pub path: PathBuf,
    /// Driver of the kubelet, by the names of the cgroups.
    pub driver: Driver,
    /// Other trees of pods on this machine, which do not count.
    pub leftovers: Vec<PathBuf>,
}

impl Kubepods {
    /// Searches kubepods below `mount` (`/sys/fs/cgroup`); `None` if it does not exist, or not yet.
    ///
    /// Where both versions are mounted, the one that has kubepods counts, version 1 first. Of several trees the one with
    /// most running pods counts, then the one with most pods.
    pub fn find(mount: &Path) -> Option<Self> {
        let trees = PLACES
            .iter()
            .filter_map(|(place, driver)| Self::at(mount, place, *driver));
        let mut trees: Vec<Self> = trees.collect();
        if trees.len() < 2 {
            return trees.pop();
        }
        let counts: Vec<_> = trees.iter().map(Self::pod_counts).collect();
        let most = counts.iter().max()?;
        let used = counts.iter().position(|count| count == most)?;
        let used = trees.remove(used);
        Some(Self {
            leftovers: trees.into_iter().map(|tree| tree.cpu.path).collect(),
            ..used
        })
    }

    /// Kubepods at this place below the roots of the hierarchies, if it exists.
    fn at(mount: &Path, place: &str, driver: Driver) -> Option<Self> {
        let tree = |v1: &[&str]| Tree::find(mount, v1, place);
        Some(Self {
            cpu: tree(&["cpuacct", "cpu,cpuacct"])?,
            memory: tree(&["memory"])?,
            cpuset: tree(&["cpuset"]),
            pids: tree(&["pids"]),
            driver,
            leftovers: Vec::new(),
        })
    }

    /// Numbers of running pods and of all pods. A pod that cannot be read does not run, and an unreadable tree has none.
    fn pod_counts(&self) -> (usize, usize) {
        let pods = self.scan().unwrap_or_default().pods;
        let running = pods.iter().filter(|pod| self.is_populated(pod).unwrap_or(false));
        (running.count(), pods.len())
    }

    /// The location of the pods' cgroups.
    pub fn place(&self) -> KubepodsPlace {
        KubepodsPlace {
            path: self.cpu.path.clone(),
            driver: self.driver,
            leftovers: self.leftovers.clone(),
        }
    }
}

impl Tree {
    /// The hierarchy of a controller that has this place in it; `v1` are the names its own hierarchy may have.
    fn find(mount: &Path, v1: &[&str], place: &str) -> Option<Self> {
        let own = v1.iter().map(|name| (Version::V1, mount.join(name)));
        let unified = [mount.to_owned(), mount.join("unified")];
        let unified = unified
            .into_iter()
            .filter(|root| root.join("cgroup.controllers").exists());
        own.chain(unified.map(|root| (Version::V2, root)))
            .map(|(version, root)| Self {
                version,
                path: root.join(place),
            })
            .find(|tree| tree.path.is_dir())
    }
}
