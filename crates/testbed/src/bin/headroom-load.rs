//! Entry point of `headroom-load`, the process of a pod: uses CPU and memory as its flags set them.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::Parser;
use headroom_testbed::workload::load::Load;

/// Uses CPU and memory as told, until standard input ends.
#[derive(Debug, Parser)]
#[command(name = "headroom-load")]
struct Args {
    #[command(flatten)]
    load: Load,
}

fn main() -> Result<()> {
    Args::parse().load.run()
}
