//! Entry point of `headroom-agent`.

use std::{env, process::ExitCode};

use headroom_agent::{args::Args, start};
use headroom_kit::log::chain;

fn main() -> ExitCode {
    let args = Args::read(env::args_os()).unwrap_or_else(|refusal| refusal.exit());
    let Err(error) = start::run(args) else {
        return ExitCode::SUCCESS;
    };
    #[expect(clippy::print_stderr, reason = "logging may not have begun")]
    {
        eprintln!("headroom-agent: {}", chain(&error));
    }
    ExitCode::FAILURE
}
