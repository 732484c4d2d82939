//! Reads the CPU time of all tasks in a cgroup, version 1 or 2, for the demo and benches.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};

use super::ROOT;

/// Where the kernel publishes a cgroup's runtime.
#[derive(Debug, Clone)]
pub enum CpuUse {
    /// cgroup v1: nanoseconds.
    Cpuacct(PathBuf),
    /// cgroup v2: `usage_usec` in `cpu.stat`.
    CpuStat(PathBuf),
}

impl CpuUse {
    /// That of a cgroup, from the root of its hierarchy on; of all tasks if empty.
    ///
    /// # Errors
    /// If there is no such cgroup that accounts CPU time.
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

    /// What has been used until now; `None` if the cgroup is gone.
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
