//! A daemon of the node: a process in its namespaces, as a child of nsenter on this machine.

use std::{
    fs,
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use xtask::process::Process;

/// Time limit for the end of a killed daemon.
const END_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Daemon {
    nsenter: Process,
}

impl Daemon {
    /// Starts a command of [`super::sandbox::Sandbox::enter`]. Its output is appended to the log.
    pub(super) fn start(name: &str, command: &Command, log: &Path) -> Result<Self> {
        let nsenter = Process::spawn(name, command, log, Duration::ZERO)?;
        Ok(Self { nsenter })
    }

    /// Process id on this machine; `None` if the daemon has ended or does not run yet.
    pub(super) fn pid(&self) -> Option<u32> {
        let nsenter = self.nsenter.pid();
        let children = fs::read_to_string(format!("/proc/{nsenter}/task/{nsenter}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    pub(super) fn check(&mut self) -> Result<()> {
        self.nsenter.check()
    }

    /// Kills the daemon, and waits for its end: another one needs its port and locks.
    pub(super) fn stop(&mut self) -> Result<()> {
        let pid = self.pid();
        let name = self.nsenter.name();
        let context = format!("stop {name}");
        self.nsenter.stop().context(context)?;
        if let Some(pid) = pid {
            let process = format!("/proc/{pid}");
            let deadline = Instant::now() + END_LIMIT;
            while Path::new(&process).exists() {
                ensure!(
                    Instant::now() < deadline,
                    "process {pid} did not end within {END_LIMIT:?}"
                );
                sleep(POLL);
            }
        }
        Ok(())
    }
}
