//! Starts, stops and checks one node of the cluster, which reports the machine that its options describe. Its keeper is
//! real kubelet code over a fake runtime, or the status writer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node as NodeObject;
use xtask::process::Process;

use super::{command::Layout, node_options::NodeOptions, writer::Writer};

/// A node that is kept.
#[derive(Debug)]
pub(super) struct Node {
    options: NodeOptions,
    /// The kubelet's; `None` for a status writer.
    program: Option<PathBuf>,
    kubeconfig: PathBuf,
    life: Life,
}

#[derive(Debug)]
enum Life {
    Kubelet(Process),
    Writer(Writer),
}

impl Node {
    /// Starts it with that program, or without one as a task of the present async runtime.
    pub(super) fn start(
        options: NodeOptions,
        program: Option<PathBuf>,
        kubeconfig: PathBuf,
        layout: &Layout,
    ) -> Result<Self> {
        let life = Life::start(&options, program.as_deref(), &kubeconfig, layout)?;
        Ok(Self {
            options,
            program,
            kubeconfig,
            life,
        })
    }

    pub(super) fn restart(&mut self, layout: &Layout) -> Result<()> {
        self.stop()?;
        self.life = Life::start(&self.options, self.program.as_deref(), &self.kubeconfig, layout)?;
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        match &mut self.life {
            Life::Kubelet(process) => process
                .stop()
                .map(drop)
                .with_context(|| format!("stop node {}", self.options.name)),
            Life::Writer(writer) => {
                writer.stop();
                Ok(())
            }
        }
    }

    pub(super) fn check(&mut self) -> Result<()> {
        match &mut self.life {
            Life::Kubelet(process) => process.check(),
            Life::Writer(writer) => writer.check(),
        }
    }
}

impl Life {
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
        keeper: _,
        cpus,
        memory_bytes,
        reserved_cpu_milli,
        reserved_memory_bytes,
        sync,
        report,
        by_way_of: _,
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
    fn system_daemons_have_a_twentieth_of_all_cpus_and_half_a_gibibyte() {
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
