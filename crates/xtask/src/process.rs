//! A child process that never outlives its owner, even if the owner is killed.

use std::{
    fs::File,
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{self, Child, Command, ExitStatus, Stdio},
    sync::{
        OnceLock,
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::terminal::print;

/// Interval of checks for the end of a process.
const POLL: Duration = Duration::from_millis(10);

/// Runs as `sh -c GUARD parent program arguments...`, after setpriv has set the parent-death signal. If the parent still
/// exists at this point, its end cannot be missed.
const GUARD: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// A running program; ended when dropped.
///
/// The kernel kills it if the owner is killed. It has a process group of its own, so that Ctrl-C in a terminal reaches only
/// the owner, which stops its processes in order.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    grace: Duration,
}

impl Process {
    /// Starts the command without input, and appends its output to `log`. Drop sends SIGTERM, and SIGKILL after `grace`;
    /// with a zero `grace`, SIGKILL at once.
    ///
    /// # Errors
    /// If the log or the process cannot be created. A program that cannot be executed ends with code 126 or 127; the log has
    /// the reason.
    pub fn spawn(name: &str, command: &Command, log: &Path, grace: Duration) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let output = file.with_context(|| format!("write {}", log.display()))?;
        let errors = output.try_clone().context("share the log")?;
        let mut guarded = guarded(command);
        guarded
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        let child = spawn_on_lasting_thread(guarded)
            .with_context(|| format!("start {name} through setpriv (util-linux)"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
            grace,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Process id of the program itself: setpriv and sh are replaced by exec.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Exit status; `None` while the process runs.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Checks that the process runs.
    ///
    /// # Errors
    /// If it has ended; the message has the end of its log.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.status()? {
            bail!("{} ended ({status}); {}", self.name, tail(&self.log, 20));
        }
        Ok(())
    }

    /// Sends a signal unless the process has ended.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.status()?.is_none() {
            kill_process(Pid::from_child(&self.child), signal)?;
        }
        Ok(())
    }

    /// Sends SIGTERM, then SIGKILL after the grace period, and returns the exit status.
    ///
    /// # Errors
    /// If the kernel refuses a signal or does not report the status.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        if !self.grace.is_zero() {
            self.signal(Signal::TERM)?;
            let deadline = Instant::now() + self.grace;
            while Instant::now() < deadline {
                if let Some(status) = self.status()? {
                    return Ok(status);
                }
                thread::sleep(POLL);
            }
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            print(format_args!("{} could not be ended: {error}", self.name));
        }
    }
}

/// The last lines of a log, for an error message.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut last: Vec<&str> = text.lines().rev().take(lines).collect();
    last.reverse();
    format!("the end of {}:\n{}", log.display(), last.join("\n"))
}

/// Wraps the command in setpriv, so that the kernel kills it when its parent ends.
fn guarded(command: &Command) -> Command {
    let mut guarded = Command::new("setpriv");
    guarded
        .args(["--pdeathsig", "KILL", "sh", "-c", GUARD])
        .arg(process::id().to_string());
    guarded.arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(key, value),
            None => guarded.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        guarded.current_dir(folder);
    }
    guarded
}

type SpawnRequest = (Command, Sender<io::Result<Child>>);

/// Spawns from a thread that lives as long as this process: for the kernel, the parent is the *thread* that forks, and an
/// async runtime may end its threads earlier.
fn spawn_on_lasting_thread(command: Command) -> io::Result<Child> {
    static REQUESTS: OnceLock<Sender<SpawnRequest>> = OnceLock::new();
    let requests = REQUESTS.get_or_init(|| {
        let (requests_tx, requests_rx) = mpsc::channel::<SpawnRequest>();
        thread::spawn(move || {
            for (mut command, child_tx) in requests_rx {
                // The receiver waits below, so sending succeeds.
                child_tx.send(command.spawn()).ok();
            }
        });
        requests_tx
    });
    let (child_tx, child_rx) = mpsc::channel();
    requests.send((command, child_tx)).map_err(io::Error::other)?;
    child_rx.recv().map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_true() {
            assert!(Instant::now() < deadline, "not within 20 s: {what}");
            thread::sleep(POLL);
        }
    }

    fn is_alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn output_and_environment_arrive() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("log");
        let mut command = shell("echo to $WHOM from $PWD; echo trouble >&2");
        command.env("WHOM", "you").current_dir("/");
        let mut process = Process::spawn("echo", &command, &log, Duration::ZERO).expect("spawn");
        eventually("the end", || process.status().expect("status").is_some());
        assert_eq!(
            std::fs::read_to_string(&log).expect("log"),
            "to you from /\ntrouble\n"
        );
        assert!(
            process
                .check()
                .expect_err("ended")
                .to_string()
                .contains("trouble")
        );
    }

    #[test]
    fn dropping_ends_the_process() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("log");
        let process = Process::spawn("sleep", &shell("exec sleep 600"), &log, Duration::ZERO).expect("spawn");
        let pid = process.pid();
        assert!(is_alive(pid));
        drop(process);
        assert!(!is_alive(pid));
    }

    #[test]
    fn process_may_end_within_the_grace_period() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("log");
        let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
        let mut process =
            Process::spawn("polite", &shell(script), &log, Duration::from_secs(20)).expect("spawn");
        eventually("the trap", || {
            std::fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
        });
        assert_eq!(process.stop().expect("stop").code(), Some(7));
    }

    #[test]
    fn process_that_ignores_sigterm_is_killed_after_the_grace_period() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("log");
        let script = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
        let mut process =
            Process::spawn("deaf", &shell(script), &log, Duration::from_millis(100)).expect("spawn");
        eventually("the trap", || {
            std::fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
        });
        assert_eq!(process.stop().expect("stop").code(), None);
    }

    #[test]
    fn process_outlives_the_thread_that_spawned_it() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("log");
        let asking =
            thread::spawn(move || Process::spawn("sleep", &shell("exec sleep 600"), &log, Duration::ZERO));
        let mut process = asking.join().expect("thread").expect("spawn");
        // If that thread were the parent, the kernel would have killed the process now.
        assert!(process.status().expect("status").is_none());
        process.check().expect("running");
    }

    #[test]
    fn program_does_not_start_after_its_parent_has_ended() {
        let status = Command::new("sh")
            .args(["-c", GUARD, "1", "true"])
            .status()
            .expect("sh");
        assert_ne!(process::id(), 1);
        assert!(!status.success());
    }
}
