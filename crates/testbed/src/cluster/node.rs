//! Starts, stops and checks one node of the cluster: real kubelet code with a fake container runtime, and the capacity in its
//! options.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node as NodeObject;
use xtask::process::Process;

use super::{command::Layout, node_options::NodeOptions};

#[derive(Debug)]
pub(super) struct Node {
    options: NodeOptions,
    /// Path of the kubelet program.
    program: PathBuf,
    kubeconfig: PathBuf,
    kubelet: Process,
}

impl Node {
    pub(super) fn start(
        options: NodeOptions,
        program: PathBuf,
        kubeconfig: PathBuf,
        layout: &Layout,
    ) -> Result<Self> {
        let kubelet = spawn(&options, &program, &kubeconfig, layout)?;
        Ok(Self {
            options,
            program,
            kubeconfig,
            kubelet,
        })
    }

    pub(super) fn restart(&mut self, layout: &Layout) -> Result<()> {
        self.stop()?;
        self.kubelet = spawn(&self.options, &self.program, &self.kubeconfig, layout)?;
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        self.kubelet
            .stop()
            .map(drop)
            .with_context(|| format!("stop node {}", self.options.name))
    }

    pub(super) fn check(&mut self) -> Result<()> {
        self.kubelet.check()
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
