//! The node's own namespaces and cgroups, as a node in a container has them. All processes, mounts, network interfaces and
//! cgroups of the node end with the owner, also if it is killed.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use xtask::process::tail;

use super::state::State;

const SUPERVISOR: &str = include_str!("supervisor.sh");
const NODE: &str = include_str!("node.sh");
/// Joins the node's cgroup, which starts the arguments in its namespaces. setpriv ends the program with nsenter, its parent.
const ENTER: &str = r#"while read -r point; do echo 0 >"$point/$1/system/cgroup.procs" || exit; done <"$0/cgroups"
target=$2; shift 2
exec nsenter --target "$target" --mount --pid --net --cgroup --ipc --uts --wd=/ -- setpriv --pdeathsig KILL -- "$@""#;
const START_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// The namespaces of a node, and the supervisor that removes its cgroups.
#[derive(Debug)]
pub(super) struct Sandbox {
    supervisor: Child,
    folder: PathBuf,
    cgroup: String,
    /// Process id of the init process, on this machine.
    init: u32,
    snapshotter: String,
}

impl Sandbox {
    /// Starts the supervisor, and waits until the namespaces are ready. `programs` can be executed in the node as
    /// [`Self::program`], wherever they are.
    pub(super) fn start(state: &State, node: &str, programs: &[&Path]) -> Result<Self> {
        let folder = state.folder();
        for (name, text) in [("supervisor.sh", SUPERVISOR), ("node.sh", NODE)] {
            fs::write(folder.join(name), text).with_context(|| format!("write {name}"))?;
        }
        let log = folder.join("sandbox.log");
        let output = File::create(&log).with_context(|| format!("write {}", log.display()))?;
        let supervisor = Command::new("sh")
            .arg(folder.join("supervisor.sh"))
            .arg(folder)
            .args([state.name(), node])
            .args(programs)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(output.try_clone().context("share the log")?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .context("start the supervisor of the node")?;
        let mut sandbox = Self {
            supervisor,
            folder: folder.to_owned(),
            cgroup: state.name().to_owned(),
            init: 0,
            snapshotter: String::new(),
        };
        sandbox.await_ready(&log)?;
        Ok(sandbox)
    }

    fn await_ready(&mut self, log: &Path) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Ok(ready) = fs::read_to_string(self.folder.join("ready")) {
                let (init, snapshotter) = ready.trim().split_once(' ').context("parse the ready file")?;
                self.init = init.parse().context("parse the process id of the node")?;
                snapshotter.clone_into(&mut self.snapshotter);
                return Ok(());
            }
            if self.has_ended()? || Instant::now() > deadline {
                bail!("the namespaces of the node could not be made; {}", tail(log, 20));
            }
            sleep(POLL);
        }
    }

    fn has_ended(&mut self) -> Result<bool> {
        let status = self
            .supervisor
            .try_wait()
            .context("read the supervisor's status")?;
        Ok(status.is_some() || self.folder.join("ended").exists())
    }

    /// Checks that the init process runs.
    pub(super) fn check(&mut self) -> Result<()> {
        if self.has_ended()? {
            bail!(
                "the namespaces of the node ended; {}",
                tail(&self.folder.join("sandbox.log"), 20)
            );
        }
        Ok(())
    }

    /// Process id of the init process, on this machine.
    pub(super) fn init(&self) -> u32 {
        self.init
    }

    /// Name of containerd's snapshotter that this file system supports.
    pub(super) fn snapshotter(&self) -> &str {
        &self.snapshotter
    }

    /// Path in the node of a program that [`Self::start`] was given.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// A command that runs the program in the node's namespaces and cgroup.
    pub(super) fn enter(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", ENTER])
            .arg(&self.folder)
            .args([&self.cgroup, &self.init.to_string()])
            .arg(program)
            .current_dir("/");
        command
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // `wait` closes the supervisor's input first, which ends the init process, and with it all others.
        if let Err(error) = self.supervisor.wait() {
            tracing::warn!(%error, "waiting for the supervisor of a node failed");
        }
    }
}
