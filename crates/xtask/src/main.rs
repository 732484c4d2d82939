//! Entry point of `cargo xtask`.
#![forbid(unsafe_code)]

use std::{env, ffi::OsString, process::ExitCode};

use anyhow::Result;
use clap::Parser;
use xtask::{
    demo::Demo,
    deny,
    fuzz::Fuzz,
    images::Images,
    launch, mutants,
    setup::{self, Item, controlplane::Component},
    suite,
    terminal::print,
};

const BENCH: &str = "headroom-bench";

/// Set-up, control plane, demo, tests, generated files and benches of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Installs the tools that tests and the demo need beyond Rust and git, and lists each with its reason. A second run
    /// changes nothing.
    Setup,
    /// Starts a real control plane with one node on loopback, and runs it until Ctrl-C.
    Cluster {
        /// The node runs pods on this machine with a kubelet, containerd and runc. Needs root.
        #[arg(long)]
        real: bool,
    },
    /// Shows Headroom on one node: real control plane and webhook, the agent on this kernel, and a live table.
    Demo(Demo),
    /// Installs missing tools, builds, and runs every kind of test.
    Test(suite::Test),
    /// Builds container images of Headroom's programs without a daemon, and exports them to target/images.
    Images(Images),
    /// Searches for inputs that make a fuzz target panic, starting from tests/fuzz/corpus.
    Fuzz(Fuzz),
    /// Runs cargo-mutants with .cargo/mutants.toml: changes code in small ways and lists the changes that no test catches.
    #[command(disable_help_flag = true)]
    Mutants(ProgramArgs),
    /// Checks licences, bans and sources of all dependencies, and advisories if their database can be fetched.
    Deny,
    /// Generates manifests and reference pages from declarations in the code. `--check` only compares.
    #[command(disable_help_flag = true)]
    Generate(ProgramArgs),
    /// Builds the files of a release in target/release-files: images, chart, manifest, plugin and checksums.
    #[command(disable_help_flag = true)]
    Release(ProgramArgs),
    /// Counts the test cases of each endpoint in tests/fixtures/cases, and lists cases without a row.
    Cases,
    /// Runs a bench, which compares variants in one run; `cargo xtask bench --help` lists the benches.
    #[command(disable_help_flag = true)]
    Bench(ProgramArgs),
}

// Parsed by the program behind the command. A doc comment would be its help text.
#[derive(Debug, clap::Args)]
struct ProgramArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    Command::parse().run().unwrap_or_else(|error| {
        print(format_args!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

/// False if the arguments only ask for help: an unoptimised build is enough for that.
fn is_measuring(arguments: &[OsString]) -> bool {
    let is_help = |argument: &OsString| ["-h", "--help", "help"].iter().any(|word| argument == word);
    arguments.iter().any(|argument| argument != "--json") && !arguments.iter().any(is_help)
}

/// Installs missing items and builds programs at the same time.
fn prepare(items: &[Item], programs: &[&str]) -> Result<()> {
    let costs = launch::costs(programs, false);
    let (ready, ()) = setup::run_with_build(items, costs, || launch::build(programs, false))?;
    ready.check()
}

impl Command {
    fn run(self) -> Result<ExitCode> {
        // Every other command builds the webhook, whose allocator needs make.
        if !matches!(self, Self::Deny) {
            setup::make::ensure()?;
        }
        match self {
            Self::Setup => setup::run(&Item::all())?.check()?,
            Self::Cluster { real } => {
                let mut items = vec![Item::Controlplane(Component::RUNNING.to_vec())];
                if real {
                    items.extend(Item::of_real_node());
                } else {
                    items.push(Item::Kubelet);
                }
                prepare(&items, &["headroom-cluster"])?;
                let arguments = if real { vec!["--real".into()] } else { Vec::new() };
                launch::become_program("headroom-cluster", false, &arguments)?;
            }
            Self::Demo(demo) => {
                prepare(
                    &demo.node.items(),
                    &[launch::PROGRAMS.as_slice(), &["headroom-demo"]].concat(),
                )?;
                let own: Vec<OsString> = env::args_os().skip(2).collect();
                launch::become_with_programs("headroom-demo", &own)?;
            }
            Self::Test(test) => return test.run(),
            Self::Images(images) => images.run()?,
            Self::Fuzz(fuzz) => fuzz.run()?,
            Self::Mutants(ProgramArgs { arguments }) => mutants::run(&arguments)?,
            Self::Deny => deny::check()?,
            Self::Generate(ProgramArgs { arguments }) => {
                launch::build(&["headroom-generate"], false)?;
                launch::become_program("headroom-generate", false, &arguments)?;
            }
            Self::Release(ProgramArgs { arguments }) => {
                launch::build(&["headroom-release"], false)?;
                launch::become_program("headroom-release", false, &arguments)?;
            }
            Self::Cases => {
                launch::build(&["headroom-cases"], false)?;
                launch::become_program("headroom-cases", false, &[])?;
            }
            Self::Bench(ProgramArgs { arguments }) => {
                let is_measuring = is_measuring(&arguments);
                if is_measuring && !launch::costs(&[BENCH], true).is_zero() {
                    print("building with optimisation; the first build takes minutes");
                }
                launch::build(&[BENCH], is_measuring)?;
                launch::become_program(BENCH, is_measuring, &arguments)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
