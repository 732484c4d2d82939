//! Pins a runtime to a CPU, and reads the CPU time of its threads and the memory of the process.

use std::{fs, ops::Add, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use headroom_testbed::thread::{cpus, stay_on};
use rustix::param::page_size;
use tokio::runtime::{Builder, Runtime};
use tracing::error;

/// Keeps threads for blocking work alive: the CPU time of ended threads is lost.
const KEEP_ALIVE: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy)]
pub(super) struct Cpus {
    /// CPU of stand-ins and agents.
    pub(super) load: u32,
    pub(super) server: u32,
}

impl Cpus {
    /// The first and the last CPU that this process may use.
    ///
    /// # Errors
    /// If there is only one.
    pub(super) fn choose() -> Result<Self> {
        let cpus = cpus()?;
        let (load, server) = (
            *cpus.first().context("the process may use no CPU")?,
            *cpus.last().context("the process may use no CPU")?,
        );
        ensure!(
            load != server,
            "this process may use only one CPU: server and load need one each"
        );
        Ok(Self { load, server })
    }
}

/// A runtime with one worker; all of its threads are pinned to this CPU.
///
/// # Errors
/// If a thread cannot be started.
pub(super) fn runtime(name: &str, cpu: u32) -> Result<Runtime> {
    let begin = move || {
        if let Err(error) = stay_on(cpu) {
            error!(%error, "cannot pin a thread to its CPU");
        }
    };
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(name)
        .thread_keep_alive(KEEP_ALIVE)
        .on_thread_start(begin)
        .enable_all()
        .build()
        .context("cannot start a runtime")
}

/// Times of threads on one CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CpuTime {
    pub(super) ran: Duration,
    /// Time on the run queue while other threads ran.
    pub(super) waited: Duration,
}

impl Add for CpuTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            ran: self.ran + other.ran,
            waited: self.waited + other.waited,
        }
    }
}

impl CpuTime {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

/// Times of the threads that are pinned to this CPU.
///
/// # Errors
/// If procfs cannot be read.
pub(super) fn used(cpu: u32) -> Result<CpuTime> {
    let mut sum = CpuTime::default();
    for entry in fs::read_dir("/proc/self/task")? {
        // A thread may end meanwhile.
        sum = sum + of_thread(&entry?.path(), cpu).unwrap_or_default();
    }
    Ok(sum)
}

fn of_thread(task: &Path, cpu: u32) -> Option<CpuTime> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let mut lines = status.lines();
    let allowed = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    if allowed.trim() != cpu.to_string() {
        return None;
    }
    let times = fs::read_to_string(task.join("schedstat")).ok()?;
    let mut times = times
        .split_whitespace()
        .map(|nanos| nanos.parse().map(Duration::from_nanos));
    Some(CpuTime {
        ran: times.next()?.ok()?,
        waited: times.next()?.ok()?,
    })
}

/// Resident memory of this process, in bytes.
///
/// # Errors
/// If procfs cannot be read.
pub(super) fn resident() -> Result<usize> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let resident: usize = pages
        .split_whitespace()
        .nth(1)
        .context("/proc/self/statm has no second field")?
        .parse()?;
    Ok(resident * page_size())
}

#[cfg(test)]
mod tests {
    use std::{hint::black_box, time::Instant};

    use super::*;

    #[test]
    fn the_times_of_pinned_threads_are_counted() {
        let Cpus { load, server } = Cpus::choose().unwrap();
        let runtime = runtime("fleet-test", server).unwrap();
        let before = (used(load).unwrap(), used(server).unwrap());
        let spin = runtime.spawn(async {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(200) {
                black_box(0);
            }
        });
        while !spin.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let spent = used(server).unwrap().since(before.1).ran;
        assert!(spent >= Duration::from_millis(20), "{spent:?}");
        assert!(resident().unwrap() > 1 << 20);
    }
}
