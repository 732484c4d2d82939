//! Entry point of `cargo xtask demo`: a story on a real control plane, webhook, agent and node on this machine.
#![forbid(unsafe_code)]

mod cluster_state;
mod environment;
mod play;
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

/// What `cargo xtask demo` builds and becomes.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask demo")]
struct Args {
    #[command(flatten)]
    demo: Demo,
}

fn main() -> ExitCode {
    logs::to_standard_error();
    let Args { demo } = Args::parse();
    let told = Runtime::new()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(play::run(&demo)));
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
