//! Runs the processes of pods on nodes without containers. Each pod has one process, in a cgroup with the path that a kubelet
//! would use.

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

/// Mount point of cgroup hierarchies.
const ROOT: &str = "/sys/fs/cgroup";
/// Hierarchies of cgroup v1 with a kubelet's CPU and memory accounting.
const V1: [&str; 3] = ["cpu", "cpuacct", "memory"];
/// Parent cgroup of all pods.
pub const KUBEPODS: &str = "kubepods";
/// Parent cgroup of pods with requests and without limits.
const BURSTABLE: &str = "kubepods/burstable";
/// A process of a pod; killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

/// All processes of pods and their cgroups; both are removed when dropped.
#[derive(Debug)]
pub struct Workload {
    hierarchies: Vec<PathBuf>,
    /// Path of the program `headroom-load`.
    program: PathBuf,
    pods: BTreeMap<String, Process>,
    /// UID of the first started pod.
    oldest: Option<String>,
    burst: Option<Process>,
}

impl Process {
    /// Waits until the process ends, and returns its standard output.
    ///
    /// # Errors
    /// If the output cannot be read, or the exit status is not 0.
    pub fn output(mut self) -> Result<String> {
        let mut text = String::new();
        let mut output = self
            .0
            .stdout
            .take()
            .context("the standard output of the process was taken before")?;
        output
            .read_to_string(&mut text)
            .context("reading a process's output")?;
        let status = self.0.wait().context("waiting for a process's end")?;
        ensure!(status.success(), "a process of a pod ended with {status}");
        Ok(text)
    }

    /// Returns true if the process has been killed by SIGKILL.
    ///
    /// # Errors
    /// If the kernel does not report the status, or the process ended in another way.
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
    /// Finds the cgroup hierarchies. `program` is the path of `headroom-load`.
    ///
    /// # Errors
    /// If there is no hierarchy, or a real kubelet runs pods on this machine.
    pub fn new(program: &Path) -> Result<Self> {
        let hierarchies = hierarchies(Path::new(ROOT));
        ensure!(
            !hierarchies.is_empty(),
            "{ROOT} has no cgroup hierarchy with CPU and memory accounting"
        );
        // Checked before `Self` exists, whose drop would remove the kubelet's cgroups.
        for hierarchy in &hierarchies {
            let kubepods = hierarchy.join(KUBEPODS);
            ensure!(
                !has_processes(&kubepods),
                "{} has processes: a kubelet runs pods on this machine, and test pods would be mixed up with them",
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

    /// Ends the loads of all pods that are not in `uids`, and removes their cgroups.
    pub fn keep(&mut self, uids: &BTreeSet<String>) {
        let removed = self.pods.extract_if(.., |uid, _| !uids.contains(uid));
        for (uid, process) in removed {
            drop(process);
            for hierarchy in &self.hierarchies {
                remove_tree(&pod_cgroup(hierarchy, &uid));
            }
        }
    }

    /// Starts an additional load in the cgroup of the oldest pod, which has the longest history.
    ///
    /// # Errors
    /// If there is no pod, or as for [`Self::spawn`].
    pub fn start_burst(&mut self, load: &Load) -> Result<()> {
        let uid = self.oldest.as_deref().context("no pod to load")?;
        self.burst = Some(self.spawn(uid, &self.program, &load.arguments())?);
        Ok(())
    }

    pub fn end_burst(&mut self) {
        self.burst = None;
    }

    /// Starts a program with these arguments in a pod's cgroup. The program must call [`wait_for_start`] first.
    ///
    /// # Errors
    /// If it cannot be started or moved into the cgroup.
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

/// Starts the program, moves it into these cgroups, which are created if missing, and lets it run.
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
    let mut input = input.context("the process has no standard input")?;
    input
        .write_all(b"go\n")
        .context("a process of a pod ended at once")?;
    // The pipe stays open: the process ends when it is closed.
    process.0.stdin = Some(input);
    Ok(process)
}

/// Waits until [`Workload::spawn`] has moved this process into its cgroup, and sends a line on standard input.
///
/// # Errors
/// If standard input cannot be read, or ends without a line.
pub fn wait_for_start() -> Result<()> {
    let read = io::stdin().read_line(&mut String::new());
    ensure!(
        read.context("waiting for the start line")? > 0,
        "standard input ended before the start line"
    );
    Ok(())
}

/// Hierarchies for pods: those of cgroup v1 if present, else the unified hierarchy.
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

/// Returns true if a process runs in the cgroup or in one below it.
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

/// Removes a cgroup and all below it, deepest first. Logs a warning for each that cannot be removed, as one with processes.
pub fn remove_tree(cgroup: &Path) {
    for child in children(cgroup) {
        remove_tree(&child);
    }
    match fs::remove_dir(cgroup) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, cgroup = %cgroup.display(), "a cgroup could not be removed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_hierarchies_take_precedence_over_the_unified_one() {
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
    fn processes_below_kubepods_are_found() {
        let root = tempfile::tempdir().unwrap();
        let pod = root.path().join("kubepods/burstable/podx");
        fs::create_dir_all(&pod).unwrap();
        fs::write(pod.join("cgroup.procs"), "").unwrap();
        assert!(!has_processes(&root.path().join("kubepods")));
        fs::write(pod.join("cgroup.procs"), "7\n").unwrap();
        assert!(has_processes(&root.path().join("kubepods")));
    }
}
