//! Pins the calling thread to one CPU and reads its CPU time, for tests and benches that measure.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::{
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::{ClockId, clock_gettime},
};

/// The CPUs that this thread may run on, ascending.
///
/// # Errors
/// If the kernel does not say.
pub fn cpus() -> Result<Vec<u32>> {
    let allowed = sched_getaffinity(None).context("ask for the CPUs of this thread")?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    allowed
        .map(|cpu| u32::try_from(cpu).context("number of a CPU"))
        .collect()
}

/// The last CPU that this thread may run on: most kernels keep it freer of interrupts than the first.
///
/// # Errors
/// If the kernel does not say.
pub fn last_cpu() -> Result<u32> {
    cpus()?.last().copied().context("this thread has no CPU")
}

/// Keeps the calling thread, and what it starts, on one CPU.
///
/// # Errors
/// If it may not run there.
pub fn stay_on(cpu: u32) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    sched_setaffinity(None, &only).with_context(|| format!("stay on cpu {cpu}"))
}

/// CPU time that the calling thread has used. Time that the hypervisor gave to somebody else is not in it, if the
/// kernel knows of it.
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
    fn a_thread_that_stays_has_one_cpu_and_its_time_grows() {
        let cpu = last_cpu().unwrap();
        let start = cpu_time();
        stay_on(cpu).unwrap();
        let allowed = sched_getaffinity(None).unwrap();
        assert!(allowed.count() == 1 && allowed.is_set(cpu as usize));
        assert!(cpu_time() > start);
    }
}
