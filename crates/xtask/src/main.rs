//! Entry point of `cargo xtask`.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::Parser;
use tokio::runtime::Runtime;
use xtask::{cluster, setup, suite};

/// Set-up, control plane, demo, tests, generated files and benches of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Gets what tests and the demo need beyond Rust and git, and says what and why. A second run does no work.
    Setup,
    /// Starts a real control plane with one node on loopback and keeps it until Ctrl-C.
    Cluster,
    /// Sets up, builds, and runs every kind of test.
    Test(suite::Test),
}

fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::WARN).init();
    match Command::parse() {
        Command::Setup => setup::run(&setup::Item::all())?.check(),
        Command::Cluster => Runtime::new()?.block_on(cluster::foreground::run()),
        Command::Test(test) => test.run(),
    }
}
