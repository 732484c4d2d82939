//! Entry point of `headroom-load`, the process of a pod: uses the CPU and memory that its flags set.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::Parser;
use headroom_testbed::workload::load::Load;

/// Uses the given amounts of CPU and memory until standard input ends.
#[derive(Debug, Parser)]
#[command(name = "headroom-load")]
struct Args {
    #[command(flatten)]
    load: Load,
}

fn main() -> Result<()> {
    Args::parse().load.run()
}
