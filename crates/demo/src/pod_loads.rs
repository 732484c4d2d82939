//! [`PodLoads`]: loads of the demo's pods, as processes in the pods' cgroups or in the containers of a real node.

use std::{
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context as _, Result, ensure};
use headroom_testbed::{
    programs::Programs,
    real_node::RealNode,
    workload::{Workload, load::Load},
};

/// Use of each pod.
const SMALL: Load = Load {
    milli: 60,
    threads: 1,
    rest_percent: 0,
    memory_mib: 24,
};
/// Use of each pod on a real node: a few percent of a CPU.
pub(super) const SMALL_SCRIPT: &str =
    "while :; do i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; usleep 50000; done";
/// File in a container that ends its load.
const ENDED: &str = "/load-ended";

/// Loads of pods; they end when dropped.
pub(super) enum PodLoads {
    Processes(Workload),
    /// Containers have the small load by themselves.
    Containers(Option<Child>),
}

impl PodLoads {
    /// Loads of pods on a node without containers.
    ///
    /// # Errors
    /// If the cgroups of pods cannot be made on this machine.
    pub(super) fn processes(programs: &Programs) -> Result<Self> {
        Workload::new(&programs.load).map(Self::Processes)
    }

    /// Starts the small load of a running pod, once.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub(super) fn start(&mut self, uid: &str) -> Result<()> {
        match self {
            Self::Processes(workload) => workload.start(uid, &SMALL),
            Self::Containers(_) => Ok(()),
        }
    }

    /// Starts a load of all CPUs: in the oldest pod of a node without containers, else in the pod with this UID on the node.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub(super) fn start_burst(&mut self, node: Option<&RealNode>, uid: &str) -> Result<()> {
        let threads = thread::available_parallelism().context("count the CPUs")?.get();
        match self {
            Self::Processes(workload) => workload.start_burst(&Load {
                milli: 1000,
                threads,
                rest_percent: 0,
                memory_mib: 0,
            }),
            Self::Containers(burst) => {
                let node = node.context("no node for the load")?;
                let script = format!(
                    "rm -f {ENDED}; i=0; while [ $i -lt {threads} ]; do i=$((i+1)); \
                     while [ ! -e {ENDED} ]; do :; done & done; wait"
                );
                let mut command = in_container(node, uid, "burst", &script)?;
                *burst = Some(command.spawn().context("start the load")?);
                Ok(())
            }
        }
    }

    /// Ends the load of [`Self::start_burst`].
    ///
    /// # Errors
    /// If the container cannot be reached.
    pub(super) fn end_burst(&mut self, node: Option<&RealNode>, uid: &str) -> Result<()> {
        match self {
            Self::Processes(workload) => workload.end_burst(),
            Self::Containers(burst) => {
                let node = node.context("no node for the load")?;
                let status = in_container(node, uid, "end", &format!("touch {ENDED}"))?.status();
                let status = status.context("end the load")?;
                ensure!(status.success(), "the load was not ended ({status})");
                if let Some(mut burst) = burst.take() {
                    burst.wait().context("wait for the end of the load")?;
                }
            }
        }
        Ok(())
    }
}

/// A command that runs a script in the container of a pod.
fn in_container(node: &RealNode, uid: &str, name: &str, script: &str) -> Result<Command> {
    let filter =
        format!("labels.\"io.kubernetes.pod.uid\"=={uid},labels.\"io.cri-containerd.kind\"==container");
    let listed = node.ctr(&["containers", "list", "--quiet", &filter])?.output();
    let listed = listed.context("list containers")?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let container = text.lines().next().with_context(|| {
        format!(
            "pod {uid} has no container: {}",
            String::from_utf8_lossy(&listed.stderr)
        )
    })?;
    let mut command = node.ctr(&["tasks", "exec", "--exec-id", name, container, "sh", "-c", script])?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}
