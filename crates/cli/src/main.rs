//! Entry point of `kubectl-headroom`: exit code 0 for an answer, 1 for an error, 2 for wrong usage. What
//! `config check` cannot decide is 2 as well, as 1 means that it refuses.
#![forbid(unsafe_code)]

use std::{io, process::ExitCode};

use clap::Parser as _;
use headroom_kit::log::chain;
use kubectl_headroom::{args::Args, output::one_line, run, screen::Screen};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stderr, reason = "this is where errors reach people")]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(args, &mut Screen::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe has seen enough.
        Err(error) if error.is_io(io::ErrorKind::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&chain(&error).to_string()));
            ExitCode::from(error.exit_code())
        }
    }
}
