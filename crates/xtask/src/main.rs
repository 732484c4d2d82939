//! Entry point of `cargo xtask`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;
use xtask::{bench, cluster, demo, generate, setup, suite, terminal::say, workload};

/// Set-up, control plane, demo, tests, generated files and benches of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Gets what tests and the demo need beyond Rust and git, and says what and why. A second run does no work.
    Setup,
    /// Starts a real control plane with one node on loopback and keeps it until Ctrl-C.
    Cluster,
    /// Tells the story of a node: real control plane, webhook, agent on this kernel, and a live table.
    Demo(demo::Demo),
    /// A load process of a pod.
    #[command(hide = true)]
    Load(workload::load::Load),
    /// The latency probe of a bench.
    #[command(hide = true)]
    Probe(bench::node_harm::probe::Probe),
    /// Sets up, builds, and runs every kind of test.
    Test(suite::Test),
    /// Writes the files that follow from declarations: manifests and reference pages.
    Generate(generate::Generate),
    /// Measures one thing beside another in one run.
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    // Its client reports every refused connection as an error, and a control plane that starts or stops refuses many.
    let filter = EnvFilter::new("warn,kube_client=off");
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .init();
    Command::parse().run().unwrap_or_else(|error| {
        say(format_args!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

impl Command {
    fn run(self) -> Result<ExitCode> {
        match self {
            Self::Setup => setup::run(&setup::Item::all())?.check()?,
            Self::Cluster => cluster::foreground::run()?,
            Self::Demo(demo) => Runtime::new()?.block_on(demo.run())?,
            Self::Load(load) => load.run()?,
            Self::Probe(probe) => probe.run()?,
            Self::Test(test) => return test.run(),
            Self::Generate(generate) => generate.run()?,
            Self::Bench(bench) => bench.run()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
