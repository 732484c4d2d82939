//! Entry point of `cargo xtask cluster`: starts a cluster with one node and keeps it until Ctrl-C or SIGTERM.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write as _},
    time::Instant,
};

use anyhow::{Context as _, Result};
use headroom_testbed::{
    cluster::{Cluster, ClusterOptions, Keeper, NodeOptions},
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

/// The node's name.
const NODE: &str = "hollow-0";
/// How often the cluster's processes are looked at.
const CHECK: Duration = Duration::from_secs(1);

/// Starts a full cluster with one node that has this machine's CPUs and memory, says how to look at it, and keeps it
/// until Ctrl-C or SIGTERM. The only line on standard output is `export KUBECONFIG=...`.
///
/// # Errors
/// If it cannot be started, or one of its processes ends.
fn main() -> Result<()> {
    logs::to_standard_error();
    // Before signals are watched for, so that they end a build at once.
    controlplane::ensure(&Component::RUNNING)?;
    let keeper = Keeper::choose()?;
    Runtime::new()
        .context("start the async runtime")?
        .block_on(kept(keeper))
}

async fn kept(keeper: Keeper) -> Result<()> {
    let start = Instant::now();
    let mut terminate = signal(SignalKind::terminate()).context("watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("watch for Ctrl-C")?;
    let mut cluster = select! {
        cluster = started(keeper) => cluster?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    print(format!(
        "Cluster with node {NODE} ready after {:.1} s.\n",
        start.elapsed().as_secs_f64()
    ));
    writeln!(
        io::stdout(),
        "export KUBECONFIG={}",
        cluster.kubeconfig().display()
    )
    .context("print KUBECONFIG")?;
    print(format!(
        "\nThen, for example: {} get nodes -o wide\nLogs: {}/*.log\nCtrl-C ends it.",
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

async fn started(keeper: Keeper) -> Result<Cluster> {
    let mut cluster = Cluster::start(ClusterOptions::full()).await?;
    let node = NodeOptions {
        keeper: Some(keeper),
        ..NodeOptions::this_machine(NODE)?
    };
    cluster.start_node(node).await?;
    Ok(cluster)
}
