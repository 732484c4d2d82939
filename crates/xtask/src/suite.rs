//! `cargo xtask test`: installs missing tools, builds, runs every kind of test, and counts the tests.

mod cpuacct;
mod images;
mod long;
mod plan;
mod run;
mod tally;
mod vm;

use std::{env, process::ExitCode, time::Instant};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use self::{
    plan::Plan,
    run::RunResult,
    tally::{Row, Tally},
};
use crate::{
    launch,
    setup::{self, Item, SetupResult, container_runtime, controlplane::Component},
    terminal::print,
    workspace,
};

/// Environment variable with the slowdown factor of this machine for tests: a whole number, 1 if unset. Tests multiply their
/// time limits by it, and divide their numbers of repetitions.
pub const SLOWER: &str = "HEADROOM_TESTS_SLOWER";

// The arguments of `cargo xtask test`. A doc comment would be its help text.
#[derive(Debug, Clone, Args)]
pub struct Test {
    /// Runs only this kind of test; repeatable.
    #[arg(long, value_enum)]
    kind: Vec<Kind>,
    /// Runs only the kernel tests, on Debian's kernels in an emulated machine that has cgroup v2 alone.
    #[arg(long, conflicts_with = "kind")]
    vm: bool,
    /// With --vm, boots only this kernel series; repeatable.
    #[arg(long, requires = "vm", value_parser = vm::SERIES)]
    kernel: Vec<String>,
    /// With --vm, boots the kernel only in this configuration; repeatable.
    #[arg(long, requires = "vm", value_enum)]
    boot: Vec<vm::Boot>,
    /// Runs only the long tests: the named parts, or all. Parts that have passed on this commit are skipped.
    #[arg(long, value_name = "PART", num_args = 0.., value_parser = long::names(), conflicts_with_all = ["kind", "vm", "filter"])]
    long: Option<Vec<String>>,
    /// With --long, also runs parts that have passed on this commit.
    #[arg(long, requires = "long")]
    again: bool,
    /// Installs and builds everything that the tests need, and runs no test.
    #[arg(long, conflicts_with_all = ["vm", "long"])]
    no_run: bool,
    /// Runs only tests whose name contains this text.
    filter: Option<String>,
}

/// Kind of test, by its requirements. Each kind of end-to-end test is one test program in `tests/tests`; all other tests are
/// `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// Without requirements: unit, property, golden and documentation tests.
    Unit,
    /// Runs Headroom's programs as processes.
    Process,
    /// Needs root, and tests the running kernel.
    Kernel,
    /// Needs a real control plane.
    Apiserver,
    /// Needs root, a real control plane, and a real node that runs pods.
    Node,
}

impl Kind {
    /// Name of the test program and of the row in the summary.
    const fn word(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Process => "process",
            Self::Kernel => "kernel",
            Self::Apiserver => "apiserver",
            Self::Node => "node",
        }
    }

    /// Parallel tests; `None` for the number of CPUs. Tests that measure the kernel or load a node would disturb each other. Tests
    /// against a control plane mostly wait for it, and process tests partly wait.
    const fn threads(self) -> Option<&'static str> {
        match self {
            Self::Unit => None,
            Self::Kernel | Self::Node => Some("1"),
            Self::Process => Some("2"),
            Self::Apiserver => Some("6"),
        }
    }

    fn items(self) -> Vec<Item> {
        match self {
            Self::Unit => vec![],
            Self::Process => vec![Item::Nightly, Item::BpfLinker, Item::Prometheus, Item::Images],
            Self::Kernel => vec![Item::Nightly, Item::BpfLinker],
            Self::Apiserver => vec![
                Item::Controlplane(Component::CONTROL_PLANE.to_vec()),
                Item::Kubelet,
                Item::Prometheus,
                Item::Curl,
            ],
            Self::Node => {
                let mut items = vec![
                    Item::Nightly,
                    Item::BpfLinker,
                    Item::Controlplane(Component::CONTROL_PLANE.to_vec()),
                ];
                items.extend(Item::of_real_node());
                items
            }
        }
    }

    /// Reason why tests of this kind cannot run on this machine, if there is one.
    fn obstacle(self, ready: &SetupResult, is_root: bool) -> Option<String> {
        if self == Self::Kernel && !is_root {
            return Some("only root can load kernel programs".to_owned());
        }
        if self == Self::Node && !is_root {
            return Some("only root can run a real node".to_owned());
        }
        // The agent runs without kernel programs, and few tests use Prometheus or curl.
        let is_optional =
            |item: &Item| self == Self::Process || matches!(item, Item::Prometheus | Item::Curl);
        let needed = self.items();
        let missing = ready
            .missing
            .iter()
            .map(|missing| &missing.item)
            .find(|item| needed.contains(item) && !is_optional(item));
        missing.map(|item| format!("set-up could not install {}", item.name()))
    }

    /// Reason why this kernel or its configuration cannot run tests of this kind, if there is one.
    fn obstacle_here(self) -> Option<String> {
        (self == Self::Node).then(container_runtime::obstacle).flatten()
    }
}

impl Test {
    /// Runs the tests. The last line on standard output is `N passed, N failed`, with `, N skipped` if any were.
    ///
    /// # Errors
    /// If set-up cannot read the workspace or the tests do not compile. Failed tests set the exit code instead.
    pub fn run(&self) -> Result<ExitCode> {
        let rows = if let Some(parts) = &self.long {
            long::run(parts, self.again)?
        } else if self.vm {
            let named: Vec<&str> = self.kernel.iter().map(String::as_str).collect();
            let series = if named.is_empty() {
                &vm::SERIES
            } else {
                named.as_slice()
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
        let (ready, plan) = setup::run_with_build(&items, launch::costs_of_tests(), Plan::build)?;
        if self.no_run {
            ready.check()?;
        }
        rows.push(Row::new("set-up, build", start.elapsed(), Tally::default()).with_cpu(plan.cpu));

        let (mut times, mut failed) = (Vec::new(), Vec::new());
        for kind in kinds.into_iter().filter(|_| !self.no_run) {
            let start = Instant::now();
            let RunResult {
                tally,
                times: new_times,
                cpu,
                failures,
            } = match kind
                .obstacle(&ready, rustix::process::geteuid().is_root())
                .or_else(|| kind.obstacle_here())
            {
                Some(why) => not_run(kind, &why),
                None => self.run_kind(kind, &plan)?,
            };
            times.extend(new_times);
            failed.extend(failures);
            rows.push(Row::new(kind.word(), start.elapsed(), tally).with_cpu(cpu));
        }
        tally::print_slowest(times).context("print the slowest tests")?;
        tally::print_failed(&failed).context("print the failed tests")?;
        Ok(rows)
    }

    fn run_kind(&self, kind: Kind, plan: &Plan) -> Result<RunResult> {
        let mut all = RunResult::default();
        for program in plan.programs(kind) {
            print(format!("\n== {} tests: {}", kind.word(), program.name));
            let mut command = program.command();
            command.env(launch::BUILT, "1");
            for (test, why) in [cpuacct::not_run(kind), images::not_run(kind)]
                .into_iter()
                .flatten()
            {
                print(format!("skipped  {test}: {why}"));
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

/// Tests that cannot run count as skipped in a terminal, and as one failure in CI, which checks only the exit code.
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
    use crate::setup::MissingItem;

    fn ready(missing: Option<Item>) -> SetupResult {
        let missing = missing.map(|item| MissingItem {
            item,
            cause: anyhow!("no network"),
        });
        SetupResult {
            missing: missing.into_iter().collect(),
        }
    }

    #[test]
    fn each_kind_runs_if_its_own_requirements_are_met() {
        let controlplane = Item::Controlplane(Component::CONTROL_PLANE.to_vec());
        let blocked = |missing: Option<Item>, is_root: bool| {
            let ready = ready(missing);
            let kinds = Kind::value_variants().iter().copied();
            kinds
                .filter(|kind| kind.obstacle(&ready, is_root).is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(blocked(None, true), []);
        assert_eq!(blocked(None, false), [Kind::Kernel, Kind::Node]);
        assert_eq!(blocked(Some(Item::BpfLinker), true), [Kind::Kernel, Kind::Node]);
        assert_eq!(blocked(Some(controlplane), true), [Kind::Apiserver, Kind::Node]);
        assert_eq!(blocked(Some(Item::Kubelet), true), [Kind::Apiserver]);
        assert_eq!(blocked(Some(Item::ContainerRuntime), true), [Kind::Node]);
    }
}
