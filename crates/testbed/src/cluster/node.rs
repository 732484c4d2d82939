//! Starts, stops and checks one node of the cluster, with the capacity in its options. Its backend is real kubelet code with a
//! fake container runtime, or the status writer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node as NodeObject;
use xtask::process::Process;

use super::{command::Layout, node_options::NodeOptions, writer::Writer};

#[derive(Debug)]
pub(super) struct Node {
    options: NodeOptions,
    /// Path of the kubelet program; `None` for a status writer.
    program: Option<PathBuf>,
    kubeconfig: PathBuf,
    backend: RunningBackend,
}

#[derive(Debug)]
enum RunningBackend {
    Kubelet(Process),
    Writer(Writer),
}

impl Node {
    /// Starts the kubelet program or, with `None`, a status writer as a task of the current async runtime.
    pub(super) fn start(
        options: NodeOptions,
        program: Option<PathBuf>,
        kubeconfig: PathBuf,
        layout: &Layout,
    ) -> Result<Self> {
        let backend = RunningBackend::start(&options, program.as_deref(), &kubeconfig, layout)?;
        Ok(Self {
            options,
            program,
            kubeconfig,
            backend,
        })
    }

    pub(super) fn restart(&mut self, layout: &Layout) -> Result<()> {
        self.stop()?;
        self.backend =
            RunningBackend::start(&self.options, self.program.as_deref(), &self.kubeconfig, layout)?;
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        match &mut self.backend {
            RunningBackend::Kubelet(process) => process
                .stop()
                .map(drop)
                .with_context(|| format!("stop node {}", self.options.name)),
            RunningBackend::Writer(writer) => {
                writer.stop();
                Ok(())
            }
        }
    }

    pub(super) fn check(&mut self) -> Result<()> {
        match &mut self.backend {
            RunningBackend::Kubelet(process) => process.check(),
            RunningBackend::Writer(writer) => writer.check(),
        }
    }
}

impl RunningBackend {
    fn start(
        options: &NodeOptions,
        program: Option<&Path>,
        kubeconfig: &Path,
        layout: &Layout,
    ) -> Result<Self> {
        Ok(match program {
            Some(program) => Self::Kubelet(spawn(options, program, kubeconfig, layout)?),
            None => Self::Writer(Writer::start(options, kubeconfig, &layout.log(&options.name))?),
        })
    }
}

/// True if the condition `Ready` is `True`.
pub(crate) fn is_ready(node: &NodeObject) -> bool {
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
        backend: _,
        cpus,
        memory_bytes,
        reserved_cpu_milli,
        reserved_memory_bytes,
        sync,
        report,
        api_server_url: _,
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
        format!("--sync={}ms", sync.as_millis()),
        format!("--report={}ms", report.as_millis()),
    ];
    layout.spawn_named(name, program, &arguments)
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
