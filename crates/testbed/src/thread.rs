//! Pins the calling thread to one CPU and reads its CPU time, for tests and benches that measure.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::{
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::{ClockId, clock_gettime},
};

/// CPUs in the affinity mask of this thread, ascending.
///
/// # Errors
/// If the kernel does not report it.
pub fn cpus() -> Result<Vec<u32>> {
    let allowed = sched_getaffinity(None).context("read the CPU affinity of this thread")?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    allowed
        .map(|cpu| u32::try_from(cpu).context("convert a CPU number"))
        .collect()
}

/// Last CPU in the affinity mask of this thread: on most machines it handles fewer interrupts than the first.
///
/// # Errors
/// If the kernel does not report it.
pub fn last_cpu() -> Result<u32> {
    cpus()?.last().copied().context("this thread has no CPU")
}

/// Pins the calling thread and its future child threads and processes to one CPU.
///
/// # Errors
/// If the thread may not run on it.
pub fn stay_on(cpu: u32) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    sched_setaffinity(None, &only).with_context(|| format!("pin the thread to CPU {cpu}"))
}

/// CPU time of the calling thread. Excludes stolen time if the hypervisor reports it to the kernel.
pub fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        used.tv_sec.unsigned_abs(),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_thread_has_one_cpu_and_its_cpu_time_grows() {
        let cpu = last_cpu().unwrap();
        let start = cpu_time();
        stay_on(cpu).unwrap();
        let allowed = sched_getaffinity(None).unwrap();
        assert!(allowed.count() == 1 && allowed.is_set(cpu as usize));
        assert!(cpu_time() > start);
    }
}
