//! Reads the CPU time of all tasks in a cgroup, version 1 or 2, for the demo and benches.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};

use super::ROOT;

/// File with a cgroup's CPU time.
#[derive(Debug, Clone)]
pub enum CpuUse {
    /// `cpuacct.usage` of cgroup v1, in nanoseconds.
    Cpuacct(PathBuf),
    /// `cpu.stat` of cgroup v2, with `usage_usec`.
    CpuStat(PathBuf),
}

impl CpuUse {
    /// Finds the file of a cgroup, by its path in the hierarchy. An empty path means all tasks.
    ///
    /// # Errors
    /// If the cgroup does not exist, or has no CPU accounting.
    pub fn open(cgroup: &str) -> Result<Self> {
        let root = Path::new(ROOT);
        let cpuacct = root.join("cpuacct").join(cgroup).join("cpuacct.usage");
        let cpu_stat = root.join(cgroup).join("cpu.stat");
        if cpuacct.exists() {
            return Ok(Self::Cpuacct(cpuacct));
        }
        ensure!(
            cpu_stat.exists(),
            "neither {} nor {} exists",
            cpuacct.display(),
            cpu_stat.display()
        );
        Ok(Self::CpuStat(cpu_stat))
    }

    /// CPU time until now; `None` if the cgroup no longer exists.
    pub fn nanoseconds(&self) -> Option<u64> {
        match self {
            Self::Cpuacct(path) => fs::read_to_string(path).ok()?.trim().parse().ok(),
            Self::CpuStat(path) => {
                let text = fs::read_to_string(path).ok()?;
                let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
                line.trim().parse::<u64>().ok()?.checked_mul(1000)
            }
        }
    }
}
