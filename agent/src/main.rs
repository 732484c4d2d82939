//! Entry point of `headroom-agent`.

use std::{env, process::ExitCode};

use headroom_agent::{args::Args, start};

fn main() -> ExitCode {
    let args = Args::read(env::args_os()).unwrap_or_else(|refusal| refusal.exit());
    let Err(error) = start::run(args) else {
        return ExitCode::SUCCESS;
    };
    let error = anyhow::Error::new(error);
    #[expect(clippy::print_stderr, reason = "logging may not have begun")]
    {
        eprintln!("headroom-agent: {error:#}");
    }
    ExitCode::FAILURE
}
