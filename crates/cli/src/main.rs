//! Entry point of `kubectl-headroom`. Exit code 0: success, 1: error, 2: wrong usage. `config check` and `check` also
//! exit with 2 if they cannot decide, because 1 means that they found a problem. Under the name
//! `kubectl_complete-headroom` the program completes command lines for kubectl.
#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use clap::Parser as _;
use headroom_kit::log::chain;
use kubectl_headroom::{Args, completion, error::Error, escape::one_line, run, screen::Screen};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match answer().await {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the pipe has closed it, as `head` does.
        Err(error) if error.is_io(io::ErrorKind::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            let line = format!("error: {}\n", one_line(&chain(&error).to_string()));
            // If stderr cannot be written, the exit code still reports the error.
            io::stderr().write_all(line.as_bytes()).ok();
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs the command, or completes a command line if the program has the name for that.
async fn answer() -> Result<(), Error> {
    let mut screen = Screen::stdout();
    let words: Vec<OsString> = env::args_os().collect();
    if let Some((program, words)) = words.split_first()
        && Path::new(program).file_stem() == Some(completion::PROGRAM.as_ref())
    {
        let words: Vec<String> = words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let answer = completion::complete(&words).await;
        return screen.print(&answer);
    }
    run(Args::parse(), &mut screen).await
}
