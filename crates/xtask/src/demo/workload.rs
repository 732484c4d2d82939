//! The processes behind the demo's pods: one per pod, in a cgroup laid out as the kubelet lays it out.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use super::load::Load;

/// Where cgroup hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// The v1 hierarchies that a kubelet accounts CPU and memory in.
const V1: [&str; 3] = ["cpu", "cpuacct", "memory"];
/// The cgroup that holds all pods.
const KUBEPODS: &str = "kubepods";
/// The cgroup of pods with requests and no limits.
const BURSTABLE: &str = "kubepods/burstable";

/// A load process and the end of its life: it is killed when dropped.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            tracing::warn!(%error, pid = self.0.id(), "a load process could not be ended");
        }
    }
}

/// All load processes and their cgroups; both are gone when it is dropped.
#[derive(Debug)]
pub(super) struct Workload {
    hierarchies: Vec<PathBuf>,
    pods: BTreeMap<String, Process>,
    /// UID of the pod that was started first.
    oldest: Option<String>,
    burst: Option<Process>,
}

impl Workload {
    /// Finds the hierarchies.
    ///
    /// # Errors
    /// If none is there, or a real kubelet keeps its pods on this machine.
    pub(super) fn new() -> Result<Self> {
        let hierarchies = hierarchies(Path::new(ROOT));
        ensure!(
            !hierarchies.is_empty(),
            "{ROOT} has no hierarchy that accounts CPU and memory"
        );
        let workload = Self {
            hierarchies,
            pods: BTreeMap::new(),
            oldest: None,
            burst: None,
        };
        for hierarchy in &workload.hierarchies {
            let kubepods = hierarchy.join(KUBEPODS);
            ensure!(
                !has_processes(&kubepods),
                "{} has processes: this machine runs pods of its own, and the demo would be mixed up with them",
                kubepods.display()
            );
        }
        Ok(workload)
    }

    /// Starts a pod's process in the pod's cgroup, once.
    pub(super) fn start(&mut self, uid: &str, load: &Load) -> Result<()> {
        if !self.pods.contains_key(uid) {
            let process = self.spawn(uid, load)?;
            self.pods.insert(uid.to_owned(), process);
            self.oldest.get_or_insert_with(|| uid.to_owned());
        }
        Ok(())
    }

    /// Starts the real load in the cgroup of the oldest pod, whose history is the longest.
    pub(super) fn start_burst(&mut self, load: &Load) -> Result<()> {
        let uid = self.oldest.as_deref().context("no pod to load")?;
        self.burst = Some(self.spawn(uid, load)?);
        Ok(())
    }

    /// Ends the real load.
    pub(super) fn end_burst(&mut self) {
        self.burst = None;
    }

    fn spawn(&self, uid: &str, load: &Load) -> Result<Process> {
        let Load {
            milli,
            threads,
            memory_mib,
        } = load;
        let mut child = Command::new(env::current_exe()?)
            .args([
                "load",
                "--milli",
                &milli.to_string(),
                "--threads",
                &threads.to_string(),
            ])
            .args(["--memory-mib", &memory_mib.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("starting a load process")?;
        let input = child.stdin.take();
        let process = Process(child);
        for hierarchy in &self.hierarchies {
            let cgroup = pod_cgroup(hierarchy, uid);
            fs::create_dir_all(&cgroup).with_context(|| format!("creating {}", cgroup.display()))?;
            let file = cgroup.join("cgroup.procs");
            fs::write(&file, process.0.id().to_string())
                .with_context(|| format!("writing {}", file.display()))?;
        }
        let mut input = input.context("a load process without standard input")?;
        input.write_all(b"go\n").context("a load process ended at once")?;
        // The pipe stays open: its end is the process's end.
        let mut process = process;
        process.0.stdin = Some(input);
        Ok(process)
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.burst = None;
        self.pods.clear();
        for hierarchy in &self.hierarchies {
            remove_tree(&hierarchy.join(KUBEPODS));
        }
    }
}

/// The hierarchies to lay pods out in: the v1 ones, else the unified one.
fn hierarchies(root: &Path) -> Vec<PathBuf> {
    let v1: Vec<PathBuf> = V1
        .iter()
        .map(|name| root.join(name))
        .filter(|path| path.join("cgroup.procs").exists())
        .collect();
    if v1.is_empty() && root.join("cgroup.controllers").exists() {
        vec![root.to_owned()]
    } else {
        v1
    }
}

fn pod_cgroup(hierarchy: &Path, uid: &str) -> PathBuf {
    hierarchy.join(BURSTABLE).join(format!("pod{uid}"))
}

fn has_processes(cgroup: &Path) -> bool {
    let own = fs::read_to_string(cgroup.join("cgroup.procs")).is_ok_and(|text| !text.trim().is_empty());
    own || children(cgroup).iter().any(|child| has_processes(child))
}

fn children(cgroup: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

/// Removes a cgroup and all below it, deepest first; what still has processes stays and is told.
fn remove_tree(cgroup: &Path) {
    for child in children(cgroup) {
        remove_tree(&child);
    }
    match fs::remove_dir(cgroup) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, cgroup = %cgroup.display(), "a cgroup stays behind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_hierarchies_win_over_the_unified_one() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "").unwrap();
        assert_eq!(hierarchies(root.path()), vec![root.path().to_owned()]);
        for name in ["cpuacct", "memory"] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("cgroup.procs"), "").unwrap();
        }
        assert_eq!(
            hierarchies(root.path()),
            vec![root.path().join("cpuacct"), root.path().join("memory")]
        );
    }

    #[test]
    fn a_machine_with_pods_of_its_own_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let pod = root.path().join("kubepods/burstable/podx");
        fs::create_dir_all(&pod).unwrap();
        fs::write(pod.join("cgroup.procs"), "").unwrap();
        assert!(!has_processes(&root.path().join("kubepods")));
        fs::write(pod.join("cgroup.procs"), "7\n").unwrap();
        assert!(has_processes(&root.path().join("kubepods")));
    }
}
