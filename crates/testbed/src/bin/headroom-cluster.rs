//! Entry point of `cargo xtask cluster`: starts a cluster with one node, and runs it until Ctrl-C or SIGTERM.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write as _},
    time::Instant,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use headroom_testbed::{
    cluster::{Cluster, ClusterOptions, NodeOptions},
    logs,
    real_node::{RealNode, RealNodeOptions, pods::BUSYBOX},
};
use tokio::{
    runtime::Runtime,
    select,
    signal::unix::{SignalKind, signal},
    time::{Duration, interval},
};
use xtask::{
    setup::controlplane::{self, Component},
    terminal::print,
};

/// Name of the only node, without and with `--real`.
const HOLLOW: &str = "hollow-0";
const REAL: &str = "real-0";
/// Interval of checks that the cluster's processes run.
const CHECK: Duration = Duration::from_secs(1);

/// Starts a control plane with one node that has this machine's CPUs and memory, and runs both until Ctrl-C or SIGTERM.
/// Prints `export KUBECONFIG=...` on standard output, and everything else on standard error.
#[derive(Debug, Parser)]
#[command(name = "headroom-cluster")]
struct ClusterArgs {
    /// Runs pods on this machine with a kubelet, containerd and runc. Needs root.
    #[arg(long)]
    real: bool,
}

/// A control plane with one node.
struct OneNode {
    // In the order in which they are dropped.
    node: Option<RealNode>,
    cluster: Cluster,
}

fn main() -> Result<()> {
    let ClusterArgs { real } = ClusterArgs::parse();
    logs::to_standard_error();
    // Before the signal handlers are installed, so that Ctrl-C ends a build at once.
    controlplane::ensure(&Component::RUNNING)?;
    controlplane::ensure(if real {
        &Component::NODE
    } else {
        &[Component::Hollow]
    })?;
    Runtime::new()
        .context("start the async runtime")?
        .block_on(run(real))
}

/// Runs a real node, or a node without containers.
async fn run(is_real: bool) -> Result<()> {
    let began = Instant::now();
    let mut terminate = signal(SignalKind::terminate()).context("watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("watch for Ctrl-C")?;
    let OneNode {
        mut node,
        mut cluster,
    } = select! {
        started = OneNode::start(is_real) => started?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    print(format!(
        "Cluster with node {} ready after {:.1} s.\n",
        node.as_ref().map_or(HOLLOW, RealNode::name),
        began.elapsed().as_secs_f64()
    ));
    writeln!(
        io::stdout(),
        "export KUBECONFIG={}",
        cluster.kubeconfig().display()
    )
    .context("print KUBECONFIG")?;
    print(format!(
        "\nFor example, run then: {} get nodes -o wide\nLogs: {}/*.log",
        controlplane::kubectl().display(),
        cluster.dir().display()
    ));
    if let Some(node) = &node {
        print(format!(
            "Interface and logs of the node: {}, {}/*.log\nImage for its pods: {BUSYBOX}",
            node.interface(),
            node.folder().display()
        ));
    }
    print("Ctrl-C stops the cluster.");
    let mut ticks = interval(CHECK);
    loop {
        select! {
            _ = ticks.tick() => {
                cluster.check()?;
                node.as_mut().map_or(Ok(()), RealNode::check)?;
            }
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

impl OneNode {
    async fn start(is_real: bool) -> Result<Self> {
        if is_real {
            let cluster = Cluster::start(ClusterOptions::for_real_node()).await?;
            let node = RealNode::start(&cluster, RealNodeOptions::new(REAL)).await?;
            return Ok(Self {
                node: Some(node),
                cluster,
            });
        }
        let mut cluster = Cluster::start(ClusterOptions::full()).await?;
        cluster.start_node(NodeOptions::this_machine(HOLLOW)?).await?;
        Ok(Self { node: None, cluster })
    }
}
