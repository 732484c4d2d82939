//! Entry point of `cargo xtask demo`: shows Headroom on a real control plane, webhook, agent and node on this machine.
#![forbid(unsafe_code)]

mod cluster_state;
mod environment;
mod other_use;
mod pod_loads;
mod run;
mod snapshot;
mod stage;
mod story;
mod truth;
mod view;
mod wrap;

use std::process::ExitCode;

use clap::Parser;
use headroom_testbed::logs;
use tokio::runtime::Runtime;
use xtask::{demo::Demo, terminal::print};

// `cargo xtask demo` becomes this program. A doc comment would be its help text.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask demo", bin_name = "cargo xtask demo")]
struct Args {
    #[command(flatten)]
    demo: Demo,
}

fn main() -> ExitCode {
    logs::to_standard_error();
    let Args { demo } = Args::parse();
    let result = Runtime::new()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(run::run(&demo)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
