//! [`PodTree`] creates cgroups in the kubelet's layout, in this machine's real hierarchies, below folders of the
//! test. A [`Tenant`] is a process in one of them.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    os::unix::{fs::symlink, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use headroom_testbed::{programs::Programs, workload::load::Load};
use tempfile::TempDir;

use crate::{
    kernel::LOOK_EVERY,
    pace::{as_long, happens_within},
};

/// Mount point of the hierarchies.
const ROOT: &str = "/sys/fs/cgroup";
/// Controllers that the agent reads; with cgroup v1 each has its own hierarchy.
const CONTROLLERS: [&str; 2] = ["cpuacct", "memory"];

/// The cgroups; removed on drop.
#[derive(Debug)]
pub struct PodTree {
    /// The test's folder in each hierarchy; that of memory is the last.
    roots: Vec<PathBuf>,
    /// Replaces the mount point of the hierarchies for the agent.
    mount: PathBuf,
    links: TempDir,
    is_v1: bool,
    /// The test's folder in the cpuset hierarchy, if that is separate.
    cpusets: Option<PathBuf>,
}

/// A process in a cgroup that waits for a line on standard input before its work; killed on drop.
#[derive(Debug)]
pub struct Tenant {
    child: Child,
    input: Option<ChildStdin>,
}

impl PodTree {
    /// Creates the folders of the test `name`.
    pub fn create(name: &str) -> Self {
        let own = format!("headroom-{name}-{}", std::process::id());
        let links = tempfile::tempdir().expect("a folder");
        let root = Path::new(ROOT);
        let is_v1 = CONTROLLERS
            .iter()
            .all(|controller| root.join(controller).is_dir());
        let (roots, mount) = if is_v1 {
            let root_of = |controller| {
                let own = root.join(controller).join(&own);
                symlink(&own, links.path().join(controller)).expect("link a hierarchy");
                own
            };
            (CONTROLLERS.map(root_of).to_vec(), links.path().to_owned())
        } else {
            (vec![root.join(&own)], root.join(&own))
        };
        let tree = Self {
            roots,
            mount,
            links,
            is_v1,
            cpusets: None,
        };
        for own in &tree.roots {
            tree.make(own);
        }
        tree
    }

    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Number of hierarchies in which a cgroup is created.
    pub fn hierarchies(&self) -> u32 {
        u32::try_from(self.roots.len()).expect("a few")
    }

    /// Creates a cgroup and its parents.
    pub fn add(&self, cgroup: &str) {
        for root in &self.roots {
            let mut folder = root.clone();
            for part in Path::new(cgroup) {
                folder.push(part);
                self.make(&folder);
            }
        }
    }

    /// Removes a cgroup and those below it.
    pub fn remove(&self, cgroup: &str) {
        for root in &self.roots {
            remove(&root.join(cgroup));
        }
    }

    /// Confines all pods to these CPUs; returns the `cgroup.procs` file of a container on them.
    pub fn confine(&mut self, container: &str, cpus: &str) -> PathBuf {
        if !self.is_v1 {
            let own = self.roots.last().expect("a hierarchy");
            for above in [Path::new(ROOT), own] {
                fs::write(above.join("cgroup.subtree_control"), "+cpuset").expect("hand cpusets down");
            }
            fs::write(own.join("kubepods/cpuset.cpus"), cpus).expect("confine kubepods");
            return own.join(container).join("cgroup.procs");
        }
        let hierarchy = Path::new(ROOT).join("cpuset");
        let name = self.roots.last().and_then(|own| own.file_name()).expect("a name");
        let own = hierarchy.join(name);
        symlink(&own, self.links.path().join("cpuset")).expect("link a hierarchy");
        let mut folder = hierarchy;
        for part in &Path::new(name).join(container) {
            let above = folder.clone();
            folder.push(part);
            fs::create_dir(&folder).expect("root may make cgroups");
            for file in ["cpuset.cpus", "cpuset.mems"] {
                // A new cgroup of version 1 has no CPUs and no memory nodes.
                fs::copy(above.join(file), folder.join(file)).expect("give it those of its parent");
            }
            if part == "kubepods" {
                fs::write(folder.join("cpuset.cpus"), cpus).expect("confine kubepods");
            }
        }
        self.cpusets = Some(own);
        folder.join("cgroup.procs")
    }

    /// Limits the memory of a cgroup. Waits until the use above the limit can be reclaimed, because version 1 refuses
    /// the limit before.
    pub fn limit_memory(&self, cgroup: &str, mib: usize) {
        let file = if self.is_v1 {
            "memory.limit_in_bytes"
        } else {
            "memory.max"
        };
        let memory = self.roots.last().expect("a hierarchy").join(cgroup);
        let (limit, deadline) = ((mib << 20).to_string(), Instant::now() + happens_within());
        loop {
            match fs::write(memory.join(file), &limit) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                    thread::sleep(LOOK_EVERY);
                }
                done => return done.expect("limit a cgroup"),
            }
        }
    }

    /// Starts a shell script in a cgroup.
    pub fn script(&self, cgroup: &str, script: &str) -> Tenant {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("read -r go; {script}")]);
        self.tenant(cgroup, shell)
    }

    /// Starts a process in a cgroup that allocates and touches `memory_mib`.
    pub fn hog(&self, cgroup: &str, memory_mib: usize) -> Tenant {
        let load = Load {
            milli: 1,
            threads: 1,
            rest_percent: 0,
            memory_mib,
        };
        let programs = Programs::build().expect("build our programs");
        let mut command = Command::new(programs.load);
        command.args(load.arguments());
        self.tenant(cgroup, command)
    }

    fn tenant(&self, cgroup: &str, mut command: Command) -> Tenant {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("start a process");
        for root in &self.roots {
            let processes = root.join(cgroup).join("cgroup.procs");
            fs::write(processes, child.id().to_string()).expect("move a process");
        }
        let input = child.stdin.take();
        Tenant { child, input }
    }

    fn make(&self, folder: &Path) {
        if !self.is_v1 {
            // Version 2 enables controllers level by level.
            let above = folder.parent().expect("below the root");
            fs::write(above.join("cgroup.subtree_control"), "+memory").expect("hand memory down");
        }
        if !folder.is_dir() {
            fs::create_dir(folder).expect("root may make cgroups");
        }
    }
}

impl Drop for PodTree {
    fn drop(&mut self) {
        for root in self.roots.iter().chain(&self.cpusets) {
            remove(root);
        }
    }
}

impl Tenant {
    pub fn begin(&mut self) {
        let input = self.input.as_mut().expect("not ended");
        input.write_all(b"go\n").expect("it waits");
    }

    /// Accounted CPU time in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).expect("its CPU time");
        let first = text.split(' ').next().expect("a number");
        first.parse().expect("a number")
    }

    /// Waits until the OOM killer has ended it.
    pub fn await_kill(mut self) {
        let deadline = Instant::now() + happens_within();
        loop {
            if let Some(status) = self.child.try_wait().expect("its end") {
                assert_eq!(status.signal(), Some(9), "{status}");
                return;
            }
            assert!(Instant::now() < deadline, "not killed in {:?}", happens_within());
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until it ends by itself with success.
    pub fn await_end(mut self) {
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _has_ended = self.child.kill();
        self.child.wait().expect("its end");
    }
}

/// Removes a cgroup with all below it; retries while an ended process is still listed.
fn remove(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        remove(&entry.path());
    }
    let deadline = Instant::now() + as_long(Duration::from_secs(5));
    while fs::remove_dir(folder).is_err() && folder.is_dir() && Instant::now() < deadline {
        thread::sleep(LOOK_EVERY);
    }
}
