//! The options of a node: name, CPUs, memory, reserved amounts, intervals of its reports, and its keeper.

use std::{env, fs, time::Duration};

use anyhow::{Context as _, Result, bail};
use xtask::{
    setup::controlplane::{self, Component},
    terminal::print,
};

/// Names the keeper of nodes, `kubelet` or `writer`, where [`NodeOptions::keeper`] leaves it open.
const KEEPER: &str = "HEADROOM_NODE_KEEPER";
/// What a node with system daemons holds back for them: CPU in percent of its own, and memory.
const SYSTEM_CPU_PERCENT: u32 = 5;
const SYSTEM_MEMORY_BYTES: u64 = 512 << 20;

/// What keeps a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// Real kubelet code in a process of its own, which Go has to build.
    Kubelet,
    /// A task of this process that writes what a kubelet writes, and runs nothing.
    Writer,
}

/// What a node reports of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOptions {
    /// Its name.
    pub name: String,
    /// What keeps it; `None` leaves it to [`Keeper::choose`].
    pub keeper: Option<Keeper>,
    /// Its CPUs, at least 1: `status.capacity.cpu`.
    pub cpus: u32,
    /// Its memory in bytes, at least 1: `status.capacity.memory`.
    pub memory_bytes: u64,
    /// CPU held back from allocatable, in milli-cores.
    pub reserved_cpu_milli: u32,
    /// Memory held back from allocatable, in bytes.
    pub reserved_memory_bytes: u64,
    /// How often it compares its status with its Node, and writes what differs; a status writer renews its lease then,
    /// too. Not zero.
    pub sync: Duration,
    /// How often it writes a status in which nothing differs but the heartbeats. Not zero.
    pub report: Duration,
    /// The URL at which it finds the API server; `None` for the API server's own.
    pub by_way_of: Option<String>,
}

impl Keeper {
    /// The one that `HEADROOM_NODE_KEEPER` names, else kubelet code where its program is there or can be built, else
    /// the status writer, and says so. Blocks while it builds.
    ///
    /// # Errors
    /// If the variable names neither.
    pub fn choose() -> Result<Self> {
        if let Some(name) = env::var_os(KEEPER) {
            return Self::named(&name.to_string_lossy());
        }
        let Err(cause) = controlplane::ensure(&[Component::Hollow]) else {
            return Ok(Self::Kubelet);
        };
        print(format!(
            "\nNO KUBELET CODE HERE: {cause:#}\nNodes are kept by a status writer. It writes what a kubelet writes to its \
             Node, its Lease and its pods, but it is ours, and it turns no pod away.\n"
        ));
        Ok(Self::Writer)
    }

    fn named(name: &str) -> Result<Self> {
        match name {
            "kubelet" => Ok(Self::Kubelet),
            "writer" => Ok(Self::Writer),
            _ => bail!("{KEEPER}={name:?} is neither kubelet nor writer"),
        }
    }
}

impl NodeOptions {
    /// A small node: 2 CPUs, 4 GiB, nothing held back; it tells of itself as often as kubelets do by default.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            keeper: None,
            cpus: 2,
            memory_bytes: 4 << 30,
            reserved_cpu_milli: 0,
            reserved_memory_bytes: 0,
            sync: Duration::from_secs(10),
            report: Duration::from_secs(300),
            by_way_of: None,
        }
    }

    /// A node with the CPUs and the memory of this machine.
    ///
    /// # Errors
    /// If the kernel does not say how many CPUs there are.
    pub fn this_machine(name: impl Into<String>) -> Result<Self> {
        // All that are online, as a kubelet counts them; what this process may use can be less.
        let cpus = fs::read_to_string("/proc/cpuinfo").context("count the CPUs")?;
        let cpus = cpus.lines().filter(|line| line.starts_with("processor")).count();
        let memory = rustix::system::sysinfo();
        Ok(Self {
            cpus: u32::try_from(cpus).context("count the CPUs")?,
            memory_bytes: u64::from(memory.mem_unit) * memory.totalram,
            ..Self::new(name)
        })
    }

    /// The same node, with 5 % of its CPUs and 512 MiB of its memory held back for system daemons.
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
    fn a_keeper_that_is_none_is_refused_by_name() {
        assert_eq!(Keeper::named("kubelet").unwrap(), Keeper::Kubelet);
        assert_eq!(Keeper::named("writer").unwrap(), Keeper::Writer);
        let error = Keeper::named("Writer").unwrap_err().to_string();
        assert_eq!(
            error,
            r#"HEADROOM_NODE_KEEPER="Writer" is neither kubelet nor writer"#
        );
    }
}
