//! The table of the long run's parts, one row each, and the code that runs a part.

use std::{
    ffi::OsStr,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};
use clap::builder::PossibleValuesParser;

use super::{
    super::{
        Kind,
        plan::Plan,
        run,
        tally::Tally,
        vm::{self, Boot},
    },
    mutants,
};
use crate::{
    launch,
    setup::{
        self, Item,
        controlplane::{ASSETS, older},
        earlier_programs,
    },
    terminal::print,
    workspace,
};

/// Environment variable that selects the long form of tests.
const SOAK: (&str, &str) = ("HEADROOM_SOAK", "1");

#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Approximate duration on two CPUs.
    pub(super) lasts: &'static str,
    /// Folders that its result depends on. The result stays valid until a commit changes a file in them.
    pub(super) folders: &'static [&'static str],
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// A function that runs on this machine.
    Here(fn() -> Result<Tally>),
    /// Boots a kernel of this series in an emulated machine and runs its tests there.
    Boot(&'static str, Boot),
}

impl Part {
    const fn here(
        name: &'static str,
        about: &'static str,
        lasts: &'static str,
        work: fn() -> Result<Tally>,
    ) -> Self {
        Self {
            name,
            about,
            lasts,
            folders: &["."],
            work: Work::Here(work),
        }
    }

    const fn boot(name: &'static str, series: &'static str, boot: Boot) -> Self {
        let (about, lasts) = match boot {
            Boot::Plain => ("the kernel tests on Debian's kernel, emulated", "15 minutes"),
            Boot::LockedDown => ("the same kernel with lockdown", "some minutes"),
            Boot::Short => ("the same kernel short of memory", "10 minutes"),
            Boot::NoPressure => ("the same kernel with `psi=0`", "some minutes"),
            Boot::Isolated => ("the same kernel with `isolcpus=1`", "some minutes"),
            Boot::FourCpus => ("quotas on the same kernel with four CPUs", "some minutes"),
        };
        Self {
            name,
            about,
            lasts,
            folders: &["agent", "agent-ebpf"],
            work: Work::Boot(series, boot),
        }
    }

    /// Runs the part and counts its tests.
    ///
    /// # Errors
    /// If it cannot run. Failed tests are no error.
    pub(super) fn run(&self) -> Result<Tally> {
        match self.work {
            Work::Here(run) => run(),
            Work::Boot(series, boot) => {
                let rows = vm::run(&[series], &[boot], None)?;
                Ok(rows.iter().fold(Tally::default(), |mut sum, row| {
                    sum += row.tally();
                    sum
                }))
            }
        }
    }
}

pub(super) const PARTS: [Part; 24] = [
    Part::here(
        "interleavings",
        "100,000 random interleavings of writers of one node",
        "2 minutes",
        || model("interleavings", ("HEADROOM_INTERLEAVINGS", "100000")),
    ),
    Part::here("days", "50,000 random days of a node", "15 minutes", || {
        model("days", ("HEADROOM_DAYS", "50000"))
    }),
    Part::here(
        "quotas",
        "1,000,000 random interleavings around a tree of quotas",
        "30 minutes",
        || model("quotas", ("HEADROOM_QUOTAS", "1000000")),
    ),
    Part::here(
        "measurements",
        "tests that measure for minutes: accuracy, and reaction times with production timing",
        "30 minutes",
        measurements,
    ),
    Part::here(
        "soaks",
        "tests on a real API server in their long form",
        "45 minutes",
        soaks,
    ),
    Part::here(
        "attacks",
        "attacks on a replica: memory and latency under each",
        "15 minutes",
        attacks,
    ),
    Part::here(
        "real-node",
        "the product as pods on a real node: faults, eviction, exclusive CPUs and resizes",
        "10 minutes",
        real_node,
    ),
    Part::here(
        "older-api-server",
        "users of the webhook through the API server of an older release",
        "10 minutes, and 15 minutes for its first build",
        older_api_server,
    ),
    Part::here(
        "upgrade",
        "webhook, agent and command line next to those of an earlier commit, in each order",
        "2 minutes, and 15 minutes for the first build of that commit",
        upgrade,
    ),
    Part::here(
        "chart",
        "the chart with both Helms on a real API server",
        "10 minutes, and 5 minutes for the first build of both",
        chart,
    ),
    Part::boot("kernel-5.10", "5.10", Boot::Plain),
    Part::boot("kernel-5.10-no-pressure", "5.10", Boot::NoPressure),
    Part::boot("kernel-6.1", "6.1", Boot::Plain),
    Part::boot("kernel-6.1-locked-down", "6.1", Boot::LockedDown),
    Part::boot("kernel-6.1-short-of-memory", "6.1", Boot::Short),
    Part::boot("kernel-6.1-no-pressure", "6.1", Boot::NoPressure),
    Part::boot("kernel-6.1-isolated-cpu", "6.1", Boot::Isolated),
    Part::boot("kernel-6.12", "6.12", Boot::Plain),
    Part::boot("kernel-6.12-locked-down", "6.12", Boot::LockedDown),
    Part::boot("kernel-6.12-short-of-memory", "6.12", Boot::Short),
    Part::boot("kernel-6.12-no-pressure", "6.12", Boot::NoPressure),
    Part::boot("kernel-6.12-isolated-cpu", "6.12", Boot::Isolated),
    Part::boot("kernel-6.12-four-cpus", "6.12", Boot::FourCpus),
    Part::here(
        "mutants",
        "mutants of the rules that decide the allocatable of a node",
        "hours",
        mutants::run,
    ),
];

pub(in crate::suite) fn names() -> PossibleValuesParser {
    PARTS.iter().map(|part| part.name).into()
}

/// A model test of the webhook in a release build, with a new seed. The seed is printed, so that the run can be repeated.
fn model(name: &str, (variable, runs): (&str, &str)) -> Result<Tally> {
    let seed = seed()?;
    print(format!("HEADROOM_SEED={seed}"));
    let mut cargo = workspace::cargo();
    cargo
        .args([
            "test",
            "--release",
            "--package",
            "headroom-webhook",
            "--test",
            "simulation",
            name,
        ])
        .env(variable, runs)
        .env("HEADROOM_SEED", seed.to_string());
    Ok(run::counted(&mut cargo)?.tally)
}

/// Seconds since the Unix epoch.
fn seed() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// Measuring tests in their long form.
fn measurements() -> Result<Tally> {
    let plan = tests()?;
    let mut tally = long_form(&plan, Kind::Kernel, &["accuracy::"], SOAK)?;
    tally += long_form(
        &plan,
        Kind::Apiserver,
        &["brake_reaction::", "steady_state_skip::heartbeats"],
        SOAK,
    )?;
    Ok(tally)
}

/// Soak tests in their long form.
fn soaks() -> Result<Tally> {
    long_form(
        &tests()?,
        Kind::Apiserver,
        &[
            "deferred_resize::",
            "lagging_kubelet::",
            "replica_kills::",
            "rotation_load::",
            "strangers::",
        ],
        SOAK,
    )
}

/// Attacks in their long form; their figures are printed.
fn attacks() -> Result<Tally> {
    let plan = tests()?;
    let mut tally = long_form(&plan, Kind::Process, &["attacks::"], SOAK)?;
    tally += long_form(&plan, Kind::Apiserver, &["attacks::", "memory_attacks::"], SOAK)?;
    Ok(tally)
}

/// Tests of pods that take minutes.
fn real_node() -> Result<Tally> {
    long_form(&tests()?, Kind::Node, &["long::"], SOAK)
}

/// Port-forward and RBAC tests, with an API server before 1.35: it authorises `pods/portforward` with the verb `get` alone.
fn older_api_server() -> Result<Tally> {
    let plan = tests()?;
    let folder = older::ensure()?;
    let tests = ["port_forward::", "rights_of_people::"];
    long_form(&plan, Kind::Apiserver, &tests, (ASSETS, folder))
}

/// Programs of an earlier commit and these, next to each other.
fn upgrade() -> Result<Tally> {
    let plan = tests()?;
    let folder = earlier_programs::ensure()?;
    let programs = ("HEADROOM_EARLIER_PROGRAMS", folder);
    long_form(&plan, Kind::Apiserver, &["upgrade::"], programs)
}

/// Tests of the chart that run Helm.
fn chart() -> Result<Tally> {
    setup::run(&[Item::ChartTools])?.check_all()?;
    long_form(&tests()?, Kind::Apiserver, &["chart::"], SOAK)
}

/// Runs tests whose names start with one of `names`, one after another, with an environment variable set.
fn long_form(
    plan: &Plan,
    kind: Kind,
    names: &[&str],
    (variable, value): (&str, impl AsRef<OsStr>),
) -> Result<Tally> {
    let mut tally = Tally::default();
    for (program, name) in plan
        .programs(kind)
        .flat_map(|program| names.iter().map(move |name| (program, name)))
    {
        let mut command = program.command();
        command.env(launch::BUILT, "1").env(variable, &value).args([
            name,
            "--include-ignored",
            "--test-threads=1",
        ]);
        let counted = run::counted(&mut command)?.tally;
        ensure!(counted.passed + counted.failed > 0, "no test matches {name}");
        tally += counted;
    }
    Ok(tally)
}

fn tests() -> Result<Plan> {
    let (ready, plan) = setup::run_with_build(&Item::all(), launch::costs_of_tests(), Plan::build)?;
    ready.check_all()?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_are_named_by_kernel_and_reason() {
        for part in &PARTS {
            let Work::Boot(series, boot) = part.work else {
                continue;
            };
            let reason = format!("-{}", boot.name());
            let suffix = if boot == Boot::Plain { "" } else { &reason };
            assert_eq!(part.name, format!("kernel-{series}{suffix}"));
        }
    }
}
