//! `cargo xtask test`: sets up, builds, runs every kind of test, and counts the tests.

mod accounts;
mod long;
mod plan;
mod run;
mod tally;
mod vm;

use std::{env, process::ExitCode, time::Instant};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

pub(crate) use self::run::UNSTABLE;
use self::{
    plan::Plan,
    run::RunResult,
    tally::{Row, Tally},
};
use crate::{
    controlplane::Component,
    launch,
    setup::{self, Item, Ready},
    terminal::print,
    workspace,
};

/// The environment variable that tells tests how many times slower than usual the machine is that they run on: a whole
/// number, 1 if it is not there. What they wait for may take so much longer, and what they do a number of times they do so
/// many times fewer.
pub const SLOWER: &str = "HEADROOM_TESTS_SLOWER";

/// Flags of `cargo xtask test`.
#[derive(Debug, Clone, Args)]
pub struct Test {
    /// Runs only this kind of test; may be given more than once.
    #[arg(long, value_enum)]
    kind: Vec<Kind>,
    /// Runs the kernel tests instead on Debian's kernels in an emulated machine with cgroup version 2 only.
    #[arg(long, conflicts_with = "kind")]
    vm: bool,
    /// With --vm, only a kernel of this series; may be given more than once.
    #[arg(long, requires = "vm", value_parser = vm::SERIES)]
    kernel: Vec<String>,
    /// With --vm, only what the kernel is booted for by this name; may be given more than once.
    #[arg(long, requires = "vm", value_enum)]
    boot: Vec<vm::Boot>,
    /// Runs the long tests instead: all parts, or those named. Parts that have passed on this commit are skipped.
    #[arg(long, value_name = "PART", num_args = 0.., value_parser = long::names(), conflicts_with_all = ["kind", "vm", "filter"])]
    long: Option<Vec<String>>,
    /// With --long, runs those parts again, too.
    #[arg(long, requires = "long")]
    again: bool,
    /// Gets and builds everything that the tests need, and runs none.
    #[arg(long, conflicts_with_all = ["vm", "long"])]
    no_run: bool,
    /// Runs only tests whose name contains this.
    filter: Option<String>,
}

/// What a test needs. Each kind of end-to-end test is one program of that name in `tests/tests`; all other tests are `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// Nothing: unit, property, golden and documentation tests.
    Unit,
    /// Our programs as processes.
    Process,
    /// The running kernel, and root.
    Kernel,
    /// A real control plane.
    Apiserver,
}

impl Kind {
    /// The name of its test program.
    const fn word(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Process => "process",
            Self::Kernel => "kernel",
            Self::Apiserver => "apiserver",
        }
    }

    /// How many tests run at once, where it is not the number of CPUs. Tests that measure the kernel disturb each other.
    /// Those against a control plane spend most of their time waiting for it, and those of processes some of it.
    const fn threads(self) -> Option<&'static str> {
        match self {
            Self::Unit => None,
            Self::Kernel => Some("1"),
            Self::Process => Some("2"),
            Self::Apiserver => Some("6"),
        }
    }

    fn items(self) -> Vec<Item> {
        match self {
            Self::Unit => vec![],
            Self::Process => vec![Item::Nightly, Item::BpfLinker, Item::Prometheus],
            Self::Kernel => vec![Item::Nightly, Item::BpfLinker],
            Self::Apiserver => vec![
                Item::Controlplane(Component::CONTROL_PLANE.to_vec()),
                Item::Kubelet,
                Item::Prometheus,
                Item::Curl,
            ],
        }
    }

    /// Why its tests cannot run here, if they cannot.
    fn obstacle(self, ready: &Ready, is_root: bool) -> Option<String> {
        if self == Self::Kernel && !is_root {
            return Some("only root may load kernel programs".to_owned());
        }
        // Without its kernel programs the agent still is a process, without kubelet code there are nodes, and few tests ask
        // Prometheus or use curl.
        let can_do_without = |item: &Item| {
            self == Self::Process || matches!(item, Item::Kubelet | Item::Prometheus | Item::Curl)
        };
        let needed = self.items();
        let missing = ready
            .obstacles
            .iter()
            .map(|obstacle| &obstacle.item)
            .find(|item| needed.contains(item) && !can_do_without(item));
        missing.map(|item| format!("set-up could not get: {}", item.name()))
    }
}

impl Test {
    /// Runs the tests. The last line on standard output is `N passed, N failed`, with `, N skipped` if any were.
    ///
    /// # Errors
    /// If set-up cannot look at the workspace or the tests do not compile. Failed tests are no error but the exit code.
    pub fn run(&self) -> Result<ExitCode> {
        let rows = if let Some(parts) = &self.long {
            long::run(parts, self.again)?
        } else if self.vm {
            let asked: Vec<&str> = self.kernel.iter().map(String::as_str).collect();
            let series = if asked.is_empty() {
                &vm::SERIES
            } else {
                asked.as_slice()
            };
            let boots = if self.boot.is_empty() {
                vm::Boot::value_variants()
            } else {
                &self.boot
            };
            vm::run(series, boots, self.filter.as_deref())?
        } else {
            self.run_here()?
        };
        tally::print(&rows).context("print the summary")?;
        let has_failed = rows.iter().any(|row| row.tally().failed > 0);
        Ok(if has_failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    fn run_here(&self) -> Result<Vec<Row>> {
        let kinds: Vec<Kind> = Kind::value_variants()
            .iter()
            .copied()
            .filter(|kind| self.kind.is_empty() || self.kind.contains(kind))
            .collect();
        let items: Vec<Item> = Item::all()
            .into_iter()
            .filter(|item| kinds.iter().any(|kind| kind.items().contains(item)))
            .collect();
        let mut rows = Vec::new();

        let start = Instant::now();
        let (ready, plan) = setup::run_beside(&items, launch::costs_of_tests(), Plan::build)?;
        if self.no_run {
            ready.check()?;
        }
        rows.push(Row::new("set-up, build", start.elapsed(), Tally::default()).with_cpu(plan.cpu));

        let mut times = Vec::new();
        for kind in kinds.into_iter().filter(|_| !self.no_run) {
            let start = Instant::now();
            let RunResult {
                tally,
                times: those,
                cpu,
            } = match kind.obstacle(&ready, rustix::process::geteuid().is_root()) {
                Some(why) => not_run(kind, &why),
                None => self.run_kind(kind, &plan)?,
            };
            times.extend(those);
            rows.push(Row::new(kind.word(), start.elapsed(), tally).with_cpu(cpu));
        }
        tally::print_slowest(times).context("print the slowest tests")?;
        Ok(rows)
    }

    fn run_kind(&self, kind: Kind, plan: &Plan) -> Result<RunResult> {
        let mut all = RunResult::default();
        for program in plan.programs(kind) {
            print(format!("\n== {} tests: {}", kind.word(), program.name));
            let mut command = program.command();
            command.env(launch::BUILT, "1");
            if let Some((test, why)) = accounts::not_run(kind) {
                print(format!("left out  {test}: {why}"));
                command.args(["--skip", test]);
                all.tally.skipped += 1;
            }
            all += run::timed(command, self.filter.as_deref(), kind.threads())?;
        }
        if kind == Kind::Unit {
            print("\n== documentation tests");
            let mut cargo = workspace::cargo();
            cargo.args(["test", "--workspace", "--no-fail-fast", "--doc", "--quiet"]);
            all += run::counted(cargo.args(&self.filter))?;
        }
        Ok(all)
    }
}

/// Tests that cannot run are skipped where a person looks, and a failure where only the exit code is looked at.
fn not_run(kind: Kind, why: &str) -> RunResult {
    print(format!("\n== {} tests do not run: {why}", kind.word()));
    let tally = if env::var_os("CI").is_some() {
        Tally {
            failed: 1,
            ..Tally::default()
        }
    } else {
        Tally {
            skipped: 1,
            ..Tally::default()
        }
    };
    RunResult {
        tally,
        ..RunResult::default()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::setup::Obstacle;

    fn ready(missing: Option<Item>) -> Ready {
        let obstacle = missing.map(|item| Obstacle {
            item,
            cause: anyhow!("no network"),
        });
        Ready {
            obstacles: obstacle.into_iter().collect(),
        }
    }

    #[test]
    fn each_kind_runs_where_its_own_needs_are_met() {
        let controlplane = Item::Controlplane(Component::CONTROL_PLANE.to_vec());
        let blocked = |missing: Option<Item>, is_root: bool| {
            let ready = ready(missing);
            let kinds = Kind::value_variants().iter().copied();
            kinds
                .filter(|kind| kind.obstacle(&ready, is_root).is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(blocked(None, true), []);
        assert_eq!(blocked(None, false), [Kind::Kernel]);
        assert_eq!(blocked(Some(Item::BpfLinker), true), [Kind::Kernel]);
        assert_eq!(blocked(Some(controlplane), true), [Kind::Apiserver]);
        assert_eq!(blocked(Some(Item::Kubelet), true), []);
    }
}
