//! Options of a node: name, CPUs, memory, reserved amounts, intervals of its reports, and its backend.

use std::{env, fs, time::Duration};

use anyhow::{Context as _, Result, bail};
use xtask::{
    setup::controlplane::{self, Component},
    terminal::print,
};

/// Environment variable with the backend of nodes, `kubelet` or `writer`, if [`NodeOptions::backend`] is `None`.
const BACKEND: &str = "HEADROOM_NODE_KEEPER";
/// CPU in percent and memory in bytes that [`NodeOptions::with_system_reserved`] reserves.
const SYSTEM_CPU_PERCENT: u32 = 5;
const SYSTEM_MEMORY_BYTES: u64 = 512 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeBackend {
    /// Real kubelet code in a separate process, built with Go.
    Kubelet,
    /// A task of this process that writes the same objects as a kubelet, and runs no containers.
    Writer,
}

/// Options of a node, and the capacity that it reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOptions {
    pub name: String,
    /// Backend of the node; `None` for [`NodeBackend::choose`].
    pub backend: Option<NodeBackend>,
    /// Number of CPUs in `status.capacity`, at least 1.
    pub cpus: u32,
    /// Memory in `status.capacity`, in bytes, at least 1.
    pub memory_bytes: u64,
    /// Reserved CPU, which is not allocatable, in milli-cores.
    pub reserved_cpu_milli: u32,
    /// Reserved memory, which is not allocatable, in bytes.
    pub reserved_memory_bytes: u64,
    /// Interval of status updates, which are written only if the status differs. A status writer also renews its lease then.
    /// Not zero.
    pub sync: Duration,
    /// Interval of status writes without changes other than heartbeats. Not zero.
    pub report: Duration,
    /// URL of the API server, for example of a proxy; `None` for its own URL.
    pub api_server_url: Option<String>,
}

impl NodeBackend {
    /// The backend in `HEADROOM_NODE_KEEPER` if set, else kubelet code if its program exists or can be built, else the status
    /// writer with a message. Blocks during the build.
    ///
    /// # Errors
    /// If the variable has another value.
    pub fn choose() -> Result<Self> {
        if let Some(name) = env::var_os(BACKEND) {
            return Self::named(&name.to_string_lossy());
        }
        let Err(cause) = controlplane::ensure(&[Component::Hollow]) else {
            return Ok(Self::Kubelet);
        };
        print(format!(
            "\nNO KUBELET CODE: {cause:#}\nA status writer replaces the kubelet of each node. It writes the Node, the Lease and \
             the status of pods like a kubelet, but rejects no pod.\n"
        ));
        Ok(Self::Writer)
    }

    fn named(name: &str) -> Result<Self> {
        match name {
            "kubelet" => Ok(Self::Kubelet),
            "writer" => Ok(Self::Writer),
            _ => bail!("{BACKEND}={name:?} is neither kubelet nor writer"),
        }
    }
}

impl NodeOptions {
    /// A small node: 2 CPUs, 4 GiB, nothing reserved, intervals as a kubelet's defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            backend: None,
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
    fn unknown_backend_is_refused_by_name() {
        assert_eq!(NodeBackend::named("kubelet").unwrap(), NodeBackend::Kubelet);
        assert_eq!(NodeBackend::named("writer").unwrap(), NodeBackend::Writer);
        let error = NodeBackend::named("Writer").unwrap_err().to_string();
        assert_eq!(
            error,
            r#"HEADROOM_NODE_KEEPER="Writer" is neither kubelet nor writer"#
        );
    }
}
