//! A node kept by real kubelet code that reports the machine it is told; its pods run in a fake runtime.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node as NodeObject;

use super::command::Layout;
use crate::process::Process;

/// What a node reports of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOptions {
    /// Its name.
    pub name: String,
    /// Its CPUs, at least 1: `status.capacity.cpu`.
    pub cpus: u32,
    /// Its memory in bytes, at least 1: `status.capacity.memory`.
    pub memory_bytes: u64,
    /// CPU held back from allocatable, in milli-cores.
    pub reserved_cpu_milli: u32,
    /// Memory held back from allocatable, in bytes.
    pub reserved_memory_bytes: u64,
}

/// A running kubelet.
#[derive(Debug)]
pub(super) struct Node {
    options: NodeOptions,
    program: PathBuf,
    kubeconfig: PathBuf,
    process: Process,
}

impl NodeOptions {
    /// A small node: 2 CPUs, 4 GiB, nothing held back.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cpus: 2,
            memory_bytes: 4 << 30,
            reserved_cpu_milli: 0,
            reserved_memory_bytes: 0,
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
}

impl Node {
    pub(super) fn start(
        options: NodeOptions,
        program: PathBuf,
        kubeconfig: PathBuf,
        layout: &Layout,
    ) -> Result<Self> {
        let process = spawn(&options, &program, &kubeconfig, layout)?;
        Ok(Self {
            options,
            program,
            kubeconfig,
            process,
        })
    }

    pub(super) fn restart(&mut self, layout: &Layout) -> Result<()> {
        self.stop()?;
        self.process = spawn(&self.options, &self.program, &self.kubeconfig, layout)?;
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        self.process
            .stop()
            .map(drop)
            .with_context(|| format!("stop node {}", self.options.name))
    }

    pub(super) fn check(&mut self) -> Result<()> {
        self.process.check()
    }
}

/// True if the Node's condition Ready is true.
pub(super) fn is_ready(node: &NodeObject) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn spawn(options: &NodeOptions, program: &Path, kubeconfig: &Path, layout: &Layout) -> Result<Process> {
    let NodeOptions {
        name,
        cpus,
        memory_bytes,
        reserved_cpu_milli,
        reserved_memory_bytes,
    } = options;
    let folder = layout.folder().join(name);
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let arguments = [
        format!("--name={name}"),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-dir={}", folder.display()),
        format!("--cpus={cpus}"),
        format!("--memory-bytes={memory_bytes}"),
        format!("--reserved-cpu-milli={reserved_cpu_milli}"),
        format!("--reserved-memory-bytes={reserved_memory_bytes}"),
    ];
    layout.spawn_named(name, program, &arguments)
}
