//! Entry point of `cargo xtask cluster`: starts a cluster with one node, and runs it until Ctrl-C or SIGTERM.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write as _},
    time::Instant,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use headroom_testbed::{
    cluster::{Cluster, ClusterOptions, NodeBackend, NodeOptions},
    logs,
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

/// Name of the only node.
const NODE: &str = "hollow-0";
/// Interval of checks that the cluster's processes run.
const CHECK: Duration = Duration::from_secs(1);

/// Starts a control plane with one node that has this machine's CPUs and memory, and runs both until Ctrl-C or SIGTERM.
/// Prints `export KUBECONFIG=...` on standard output, and everything else on standard error.
#[derive(Debug, Parser)]
#[command(name = "headroom-cluster")]
struct ClusterArgs {}

fn main() -> Result<()> {
    let ClusterArgs {} = ClusterArgs::parse();
    logs::to_standard_error();
    // Before the signal handlers are installed, so that Ctrl-C ends a build at once.
    controlplane::ensure(&Component::RUNNING)?;
    let backend = NodeBackend::choose()?;
    Runtime::new()
        .context("start the async runtime")?
        .block_on(run(backend))
}

async fn run(backend: NodeBackend) -> Result<()> {
    let began = Instant::now();
    let mut terminate = signal(SignalKind::terminate()).context("watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("watch for Ctrl-C")?;
    let mut cluster = select! {
        cluster = start(backend) => cluster?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    print(format!(
        "Cluster with node {NODE} ready after {:.1} s.\n",
        began.elapsed().as_secs_f64()
    ));
    writeln!(
        io::stdout(),
        "export KUBECONFIG={}",
        cluster.kubeconfig().display()
    )
    .context("print KUBECONFIG")?;
    print(format!(
        "\nFor example, run then: {} get nodes -o wide\nLogs: {}/*.log\nCtrl-C stops the cluster.",
        controlplane::kubectl().display(),
        cluster.dir().display()
    ));
    let mut ticks = interval(CHECK);
    loop {
        select! {
            _ = ticks.tick() => cluster.check()?,
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

async fn start(backend: NodeBackend) -> Result<Cluster> {
    let mut cluster = Cluster::start(ClusterOptions::full()).await?;
    let node = NodeOptions {
        backend: Some(backend),
        ..NodeOptions::this_machine(NODE)?
    };
    cluster.start_node(node).await?;
    Ok(cluster)
}
