//! Entry point of `kubectl-headroom`: exit code 0 for an answer, 1 for an error, 2 for wrong usage. What
//! `config check` and `check` cannot decide is 2 as well, as 1 means that something is wrong. Under the name
//! `kubectl_complete-headroom` it completes command lines for kubectl.
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

/// Runs the command, or completes one, by the name of the program.
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
