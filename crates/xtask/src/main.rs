//! Entry point of `cargo xtask`.
#![forbid(unsafe_code)]

use std::{env, ffi::OsString, process::ExitCode};

use anyhow::Result;
use clap::Parser;
use xtask::{
    controlplane::Component,
    demo::Demo,
    fuzz::Fuzz,
    launch,
    mutants::Mutants,
    setup::{self, Item},
    suite,
    terminal::print,
    tree,
};

/// The program of all benches.
const BENCH: &str = "headroom-bench";

/// Set-up, control plane, demo, tests, generated files and benches of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Gets what tests and the demo need beyond Rust and git, and says what and why. A second run does no work.
    Setup,
    /// Starts a real control plane with one node on loopback and keeps it until Ctrl-C.
    Cluster,
    /// Tells the story of a node: real control plane, webhook, agent on this kernel, and a live table.
    Demo(Demo),
    /// Sets up, builds, and runs every kind of test.
    Test(suite::Test),
    /// Looks for inputs that break what reads them, from those that are kept in tests/fuzz/corpus.
    Fuzz(Fuzz),
    /// Changes code in small ways and counts the changes that no test notices.
    Mutants(Mutants),
    /// Checks licences, bans and sources of the dependency tree, and advisories where their database can be had.
    Deny,
    /// Writes the files that follow from declarations: manifests and reference pages. `--check` only compares.
    #[command(disable_help_flag = true)]
    Generate(Rest),
    /// Counts the cases of endpoints that have a row in tests/fixtures/cases, and names those that lack one.
    Cases,
    /// Measures one thing beside another in one run; `cargo xtask bench --help` lists the benches.
    #[command(disable_help_flag = true)]
    Bench(Rest),
}

/// What the program behind a command reads itself.
#[derive(Debug, clap::Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    Command::parse().run().unwrap_or_else(|error| {
        print(format_args!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

/// False if the bench is only asked what it can do, which takes no optimisation.
fn is_measuring(arguments: &[OsString]) -> bool {
    let is_question = |argument: &OsString| ["-h", "--help", "help"].iter().any(|word| argument == word);
    arguments.iter().any(|argument| argument != "--json") && !arguments.iter().any(is_question)
}

/// Gets what is missing and builds programs, side by side.
fn prepare(items: &[Item], programs: &[&str]) -> Result<()> {
    let costs = launch::costs(programs, false);
    let (ready, ()) = setup::run_beside(items, costs, || launch::build(programs, false))?;
    ready.check()
}

impl Command {
    fn run(self) -> Result<ExitCode> {
        // All others build the webhook, now or as what they prepare.
        if !matches!(self, Self::Deny) {
            setup::make::ensure()?;
        }
        match self {
            Self::Setup => setup::run(&Item::all())?.check()?,
            Self::Cluster => {
                let items = [Item::Controlplane(Component::RUNNING.to_vec()), Item::Kubelet];
                prepare(&items, &["headroom-cluster"])?;
                launch::become_program("headroom-cluster", false, &[])?;
            }
            Self::Demo(_) => {
                prepare(
                    &Item::of_demo(),
                    &[launch::PROGRAMS.as_slice(), &["headroom-demo"]].concat(),
                )?;
                let own: Vec<OsString> = env::args_os().skip(2).collect();
                launch::become_with_programs("headroom-demo", &own)?;
            }
            Self::Test(test) => return test.run(),
            Self::Fuzz(fuzz) => fuzz.run()?,
            Self::Mutants(mutants) => mutants.run()?,
            Self::Deny => tree::check()?,
            Self::Generate(Rest { arguments }) => {
                launch::build(&["headroom-generate"], false)?;
                launch::become_program("headroom-generate", false, &arguments)?;
            }
            Self::Cases => {
                launch::build(&["headroom-cases"], false)?;
                launch::become_program("headroom-cases", false, &[])?;
            }
            Self::Bench(Rest { arguments }) => {
                let is_measuring = is_measuring(&arguments);
                if is_measuring && !launch::costs(&[BENCH], true).is_zero() {
                    print("building with optimisation; minutes the first time");
                }
                launch::build(&[BENCH], is_measuring)?;
                launch::become_program(BENCH, is_measuring, &arguments)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
