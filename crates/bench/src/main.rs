//! Entry point of `cargo xtask bench`.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches as _};
use headroom_bench::{
    BENCHES, SERVED, criterion,
    declaration::{BenchResult, Row},
    node_harm::probe::Probe,
    served::{SERVE, Serve},
    table::table,
};
use headroom_testbed::logs;
use tikv_jemallocator::Jemalloc;
use xtask::terminal::print;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Subcommand of the latency probe; `node-harm` starts this program again for it.
const PROBE: &str = "probe";

fn main() -> ExitCode {
    let matches = command().get_matches();
    // The hidden subcommand `serve` sets up its own log.
    if matches.subcommand_name() != Some(SERVE) {
        logs::to_standard_error();
    }
    match run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let json = Arg::new("json")
        .long("json")
        .global(true)
        .action(ArgAction::SetTrue)
        .help("Print one JSON object instead of a table");
    Command::new("cargo xtask bench")
        .about("Runs a benchmark and checks its criteria")
        .arg(json)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(BENCHES.iter().map(|row| row.command()))
        .subcommand(Probe::augment_args(Command::new(PROBE).hide(true)))
        .subcommand(Serve::augment_args(Command::new(SERVE).hide(true)))
}

/// Runs the named bench, prints its report and checks its criteria.
fn run(matches: &ArgMatches) -> Result<()> {
    let (name, flags) = matches.subcommand().context("name a bench")?;
    if name == PROBE {
        return Probe::from_arg_matches(flags)?.run();
    }
    if name == SERVE {
        return Serve::from_arg_matches(flags)?.run(SERVED);
    }
    ensure!(
        !cfg!(debug_assertions),
        "this build is not optimised, so its figures are useless: run `cargo xtask bench {name}`"
    );
    let is_it = |row: &&&Row| row.name == name;
    let row = BENCHES
        .iter()
        .find(is_it)
        .context("there is no bench with this name")?;
    let BenchResult { report, criteria } = (row.run)(flags)?;
    let text = if flags.get_flag("json") {
        report.to_string()
    } else {
        table(&report)?
    };
    writeln!(io::stdout(), "{text}")?;
    criterion::check_all(&criteria)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_names_are_unique_and_flags_are_valid() {
        command().debug_assert();
        let names: std::collections::BTreeSet<_> = BENCHES.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), BENCHES.len());
    }
}
