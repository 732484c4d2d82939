//! Creates cgroups of pods in the kubelet's layout, below a root cgroup of the bench, with one sleeping process in
//! each, for the agent to read.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use headroom_proto::v1alpha1::{PodRequest, Qos};
use headroom_testbed::workload::{KUBEPODS, has_processes, remove_tree};
use xtask::process::Process;

/// Controllers that the agent reads; with cgroup v1 each has its own hierarchy.
const CONTROLLERS: [&str; 3] = ["cpuacct", "memory", "cpuset"];
/// Cgroup that serves as the root of each hierarchy.
const NAME: &str = "headroom-bench";
const REQUEST: (u64, u64) = (1, 64 << 10);

/// The pods' processes and cgroups are removed on drop.
#[derive(Debug)]
pub(super) struct Pods {
    /// Value of the agent's `--cgroup-root`.
    pub(super) root: PathBuf,
    /// Requests as a hint server announces them.
    pub(super) requests: Vec<PodRequest>,
    made: Vec<PathBuf>,
    processes: Vec<Process>,
}

impl Pods {
    /// Creates `count` pods in the hierarchies below `mounted`; logs and links go to `folder`.
    pub(super) fn start(mounted: &Path, count: usize, folder: &Path) -> Result<Self> {
        let is_v1 = mounted.join("cpuacct").is_dir();
        let made: Vec<PathBuf> = if is_v1 {
            let own = CONTROLLERS.iter().map(|name| mounted.join(name).join(NAME));
            own.collect()
        } else {
            vec![mounted.join(NAME)]
        };
        for root in &made {
            ensure!(
                !has_processes(root),
                "{} already has processes: another run of the bench is active",
                root.display()
            );
        }
        let root = folder.join("cgroup");
        let mut pods = Self {
            root: if is_v1 { root.clone() } else { mounted.join(NAME) },
            requests: (0..count).map(request).collect(),
            made,
            processes: Vec::new(),
        };
        if is_v1 {
            fs::create_dir_all(&root).context("cannot create a folder for the hierarchies")?;
            for (name, made) in CONTROLLERS.iter().zip(&pods.made) {
                symlink(made, root.join(name)).context("cannot link a hierarchy")?;
            }
        }
        let log = folder.join("pods.log");
        for number in 0..count {
            let uid = uid(number);
            pods.start_one(&uid, &log)
                .with_context(|| format!("cannot start pod {uid}"))?;
        }
        Ok(pods)
    }

    fn start_one(&mut self, uid: &str, log: &Path) -> Result<()> {
        let mut command = Command::new("sleep");
        command.arg("infinity");
        let process = Process::spawn("sleep", &command, log, Duration::ZERO)?;
        for root in &self.made {
            let mut cgroup = root.clone();
            create(&cgroup)?;
            for level in [KUBEPODS, "burstable", &format!("pod{uid}"), "container"] {
                cgroup = cgroup.join(level);
                create(&cgroup)?;
            }
            fs::write(cgroup.join("cgroup.procs"), process.pid().to_string())
                .with_context(|| format!("cannot move a process to {}", cgroup.display()))?;
        }
        self.processes.push(process);
        Ok(())
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.processes.clear();
        for root in &self.made {
            remove_tree(root);
        }
    }
}

/// Creates a cgroup with the controllers, CPUs and memory nodes of its parent.
fn create(cgroup: &Path) -> Result<()> {
    if cgroup.is_dir() {
        return Ok(());
    }
    let parent = cgroup.parent().context("the cgroup has no parent")?;
    let subtree_control = parent.join("cgroup.subtree_control");
    if subtree_control.exists() {
        // Version 2 enables controllers level by level.
        fs::write(&subtree_control, "+cpu +cpuset +memory").context("cannot enable controllers")?;
    }
    fs::create_dir(cgroup).with_context(|| format!("cannot create {}", cgroup.display()))?;
    if !subtree_control.exists() {
        // A new cgroup of version 1 has no CPUs and no memory nodes.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if parent.join(file).exists() {
                fs::copy(parent.join(file), cgroup.join(file))
                    .context("cannot copy the parent's CPUs and memory nodes")?;
            }
        }
    }
    Ok(())
}

fn uid(number: usize) -> String {
    format!("b0000000-0000-4000-8000-{number:012}")
}

fn request(number: usize) -> PodRequest {
    let (cpu_milli, memory_bytes) = REQUEST;
    PodRequest {
        uid: uid(number),
        cpu_milli,
        memory_bytes,
        qos: Qos::Burstable.into(),
        deleting: false,
        controller: 1,
        version: 1,
    }
}

#[cfg(test)]
mod tests {
    use headroom_agent::sample::cgroup::Kubepods;

    use super::*;

    #[test]
    fn the_agent_finds_the_pods_and_their_processes() {
        let (mounted, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for controller in CONTROLLERS {
            fs::create_dir(mounted.path().join(controller)).unwrap();
        }
        let pods = Pods::start(mounted.path(), 3, folder.path()).unwrap();
        let kubepods = Kubepods::find(&pods.root).unwrap();
        let scan = kubepods.scan().unwrap();
        assert_eq!((scan.pods.len(), scan.untracked, scan.unreadable), (3, 0, 0));
        for pod in &scan.pods {
            assert!(pods.requests.iter().any(|request| request.uid == pod.uid));
            assert!(kubepods.is_populated(pod).unwrap());
        }
        let pids: Vec<u32> = pods.processes.iter().map(Process::pid).collect();
        drop(pods);
        assert!(!pids.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()));
    }
}
