//! Runs the processes behind pods on nodes that run no containers. Each pod has one process, in a cgroup laid out as
//! the kubelet lays it out.

pub mod cpu_use;
pub mod deployment;
pub mod isolated_cgroups;
pub mod load;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

use self::load::Load;

/// Where cgroup hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// The v1 hierarchies that a kubelet accounts CPU and memory in.
const V1: [&str; 3] = ["cpu", "cpuacct", "memory"];
/// The cgroup that holds all pods.
pub const KUBEPODS: &str = "kubepods";
/// The cgroup of pods with requests and no limits.
const BURSTABLE: &str = "kubepods/burstable";
/// A process of a pod and the end of its life: it is killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

/// All processes of pods and their cgroups; both are gone when it is dropped.
#[derive(Debug)]
pub struct Workload {
    hierarchies: Vec<PathBuf>,
    /// The program that loads are.
    program: PathBuf,
    pods: BTreeMap<String, Process>,
    /// UID of the pod that was started first.
    oldest: Option<String>,
    burst: Option<Process>,
}

impl Process {
    /// Waits until it ends by itself, and tells what it wrote on standard output.
    ///
    /// # Errors
    /// If that cannot be read, or the process says that it failed.
    pub fn output(mut self) -> Result<String> {
        let mut text = String::new();
        let mut output = self.0.stdout.take().context("a process without output")?;
        output
            .read_to_string(&mut text)
            .context("reading a process's output")?;
        let status = self.0.wait().context("waiting for a process's end")?;
        ensure!(status.success(), "a process of a pod ended with {status}");
        Ok(text)
    }

    /// Has the kernel killed it?
    ///
    /// # Errors
    /// If the kernel cannot say, or it ended in another way.
    pub fn is_killed(&mut self) -> Result<bool> {
        let Some(status) = self.0.try_wait().context("waiting for a process's end")? else {
            return Ok(false);
        };
        let killed = Some(Signal::KILL.as_raw());
        ensure!(
            status.signal() == killed,
            "a process of a pod ended with {status}"
        );
        Ok(true)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            tracing::warn!(%error, pid = self.0.id(), "a process of a pod could not be ended");
        }
    }
}

impl Workload {
    /// Finds the hierarchies; `program` is `headroom-load`.
    ///
    /// # Errors
    /// If none is there, or a real kubelet keeps its pods on this machine.
    pub fn new(program: &Path) -> Result<Self> {
        let hierarchies = hierarchies(Path::new(ROOT));
        ensure!(
            !hierarchies.is_empty(),
            "{ROOT} has no hierarchy that accounts CPU and memory"
        );
        // Before there is anything that would clean up when dropped.
        for hierarchy in &hierarchies {
            let kubepods = hierarchy.join(KUBEPODS);
            ensure!(
                !has_processes(&kubepods),
                "{} has processes: this machine runs pods of its own, and ours would be mixed up with them",
                kubepods.display()
            );
        }
        Ok(Self {
            hierarchies,
            program: program.to_owned(),
            pods: BTreeMap::new(),
            oldest: None,
            burst: None,
        })
    }

    /// Starts a pod's load in the pod's cgroup, once.
    ///
    /// # Errors
    /// As for [`Self::spawn`].
    pub fn start(&mut self, uid: &str, load: &Load) -> Result<()> {
        if !self.pods.contains_key(uid) {
            let process = self.spawn(uid, &self.program, &load.arguments())?;
            self.pods.insert(uid.to_owned(), process);
            self.oldest.get_or_insert_with(|| uid.to_owned());
        }
        Ok(())
    }

    /// Ends the loads of all other pods and removes their cgroups.
    pub fn keep(&mut self, uids: &BTreeSet<String>) {
        let gone = self.pods.extract_if(.., |uid, _| !uids.contains(uid));
        for (uid, process) in gone {
            drop(process);
            for hierarchy in &self.hierarchies {
                remove_tree(&pod_cgroup(hierarchy, &uid));
            }
        }
    }

    /// Starts the real load in the cgroup of the oldest pod, whose history is the longest.
    ///
    /// # Errors
    /// If there is no pod, or as for [`Self::spawn`].
    pub fn start_burst(&mut self, load: &Load) -> Result<()> {
        let uid = self.oldest.as_deref().context("no pod to load")?;
        self.burst = Some(self.spawn(uid, &self.program, &load.arguments())?);
        Ok(())
    }

    /// Ends the real load.
    pub fn end_burst(&mut self) {
        self.burst = None;
    }

    /// Starts a program with these arguments in a pod's cgroup. It must [`await_go`] before it does anything.
    ///
    /// # Errors
    /// If it cannot be started or put there.
    pub fn spawn(&self, uid: &str, program: &Path, arguments: &[String]) -> Result<Process> {
        let cgroups = self
            .hierarchies
            .iter()
            .map(|hierarchy| pod_cgroup(hierarchy, uid));
        spawn_in(program, arguments, cgroups)
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

/// Starts the program with these arguments in these cgroups, which are made where they are not there, and says go.
fn spawn_in(
    program: &Path,
    arguments: &[String],
    cgroups: impl IntoIterator<Item = PathBuf>,
) -> Result<Process> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting a process of a pod")?;
    let input = child.stdin.take();
    let mut process = Process(child);
    for cgroup in cgroups {
        fs::create_dir_all(&cgroup).with_context(|| format!("creating {}", cgroup.display()))?;
        let file = cgroup.join("cgroup.procs");
        fs::write(&file, process.0.id().to_string())
            .with_context(|| format!("writing {}", file.display()))?;
    }
    let mut input = input.context("a process without standard input")?;
    input
        .write_all(b"go\n")
        .context("a process of a pod ended at once")?;
    // The pipe stays open: its end is the process's end.
    process.0.stdin = Some(input);
    Ok(process)
}

/// Waits until this process, started by [`Workload::spawn`], is where it belongs.
///
/// # Errors
/// If standard input cannot be read or ends before the word comes.
pub fn await_go() -> Result<()> {
    let read = io::stdin().read_line(&mut String::new());
    ensure!(read.context("waiting for the word to go")? > 0, "nobody said go");
    Ok(())
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

/// Does any process run in a cgroup, or in one below it?
pub fn has_processes(cgroup: &Path) -> bool {
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
pub fn remove_tree(cgroup: &Path) {
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
