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

/// As in the webhook.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The latency probe of a bench, which starts this program again for it.
const PROBE: &str = "probe";

fn main() -> ExitCode {
    let matches = command().get_matches();
    // That one logs as the webhook does.
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
        .about("Measures one thing beside another in one run")
        .arg(json)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(BENCHES.iter().map(|row| row.command()))
        .subcommand(Probe::augment_args(Command::new(PROBE).hide(true)))
        .subcommand(Serve::augment_args(Command::new(SERVE).hide(true)))
}

/// Runs the bench that was named, prints its result and says whether it meets its criteria.
fn run(matches: &ArgMatches) -> Result<()> {
    let (name, flags) = matches.subcommand().context("no bench was named")?;
    if name == PROBE {
        return Probe::from_arg_matches(flags)?.run();
    }
    if name == SERVE {
        return Serve::from_arg_matches(flags)?.run(SERVED);
    }
    ensure!(
        !cfg!(debug_assertions),
        "figures of a build without optimisation mean nothing: run `cargo xtask bench {name}`"
    );
    let is_it = |row: &&&Row| row.name == name;
    let row = BENCHES.iter().find(is_it).context("there is no such bench")?;
    let BenchResult { report, criteria } = (row.run)(flags)?;
    let text = if flags.get_flag("json") {
        report.to_string()
    } else {
        table(&report)?
    };
    writeln!(io::stdout(), "{text}")?;
    criterion::judge(&criteria)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_has_a_name_of_its_own_and_flags_that_agree() {
        command().debug_assert();
        let names: std::collections::BTreeSet<_> = BENCHES.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), BENCHES.len());
    }
}
