//! Options of a node: name, CPUs, memory, reserved amounts, and intervals of its reports.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};

/// CPU in percent and memory in bytes that [`NodeOptions::with_system_reserved`] reserves.
const SYSTEM_CPU_PERCENT: u32 = 5;
const SYSTEM_MEMORY_BYTES: u64 = 512 << 20;

/// Options of a node, and the capacity that it reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOptions {
    pub name: String,
    /// Number of CPUs in `status.capacity`, at least 1.
    pub cpus: u32,
    /// Memory in `status.capacity`, in bytes, at least 1.
    pub memory_bytes: u64,
    /// Reserved CPU, which is not allocatable, in milli-cores.
    pub reserved_cpu_milli: u32,
    /// Reserved memory, which is not allocatable, in bytes.
    pub reserved_memory_bytes: u64,
    /// Interval of status updates, which are written only if the status differs. Not zero.
    pub sync: Duration,
    /// Interval of status writes without changes other than heartbeats. Not zero.
    pub report: Duration,
    /// URL of the API server, for example of a proxy; `None` for its own URL.
    pub api_server_url: Option<String>,
}

impl NodeOptions {
    /// A small node: 2 CPUs, 4 GiB, nothing reserved, intervals as a kubelet's defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cpus: 2,
            memory_bytes: 4 << 30,
            reserved_cpu_milli: 0,
            reserved_memory_bytes: 0,
            sync: Duration::from_secs(10),
            report: Duration::from_secs(300),
            api_server_url: None,
        }
    }

    /// A node with the CPUs and the memory of this machine.
    ///
    /// # Errors
    /// If `/proc/cpuinfo` cannot be read.
    pub fn this_machine(name: impl Into<String>) -> Result<Self> {
        // All online CPUs, as a kubelet counts them. The affinity mask of this process may have fewer.
        let cpus = fs::read_to_string("/proc/cpuinfo").context("count the CPUs")?;
        let cpus = cpus.lines().filter(|line| line.starts_with("processor")).count();
        let memory = rustix::system::sysinfo();
        Ok(Self {
            cpus: u32::try_from(cpus).context("count the CPUs")?,
            memory_bytes: u64::from(memory.mem_unit) * memory.totalram,
            ..Self::new(name)
        })
    }

    /// Reserves 5 % of the CPUs and 512 MiB of memory for system daemons.
    pub fn with_system_reserved(self) -> Self {
        Self {
            reserved_cpu_milli: self.cpus * 10 * SYSTEM_CPU_PERCENT,
            reserved_memory_bytes: SYSTEM_MEMORY_BYTES,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_reserved_is_5_percent_of_cpus_and_512_mib() {
        let node = NodeOptions {
            cpus: 3,
            ..NodeOptions::new("n1")
        };
        let reserved = node.clone().with_system_reserved();
        assert_eq!(
            (reserved.reserved_cpu_milli, reserved.reserved_memory_bytes),
            (150, 536_870_912)
        );
        let unreserved = NodeOptions {
            reserved_cpu_milli: 0,
            reserved_memory_bytes: 0,
            ..reserved
        };
        assert_eq!(unreserved, node);
    }
}
