//! Entry point of `kubectl-headroom`: exit code 0 for an answer, 1 for an error, 2 for wrong usage. What
//! `config check` cannot decide is 2 as well, as 1 means that it refuses.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;
use headroom_kit::log::chain;
use kubectl_headroom::{args::Args, output::one_line, run, screen::Screen};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(args, &mut Screen::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe has seen enough.
        Err(error) if error.is_io(io::ErrorKind::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            let line = format!("error: {}\n", one_line(&chain(&error).to_string()));
            // Where nobody can read it, the exit code says it.
            io::stderr().write_all(line.as_bytes()).ok();
            ExitCode::from(error.exit_code())
        }
    }
}
