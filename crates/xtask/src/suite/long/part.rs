//! The table of the long run's parts, one row each, and the code that runs a part.

use std::{
    ffi::OsStr,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};
use clap::builder::PossibleValuesParser;

use super::super::{
    Kind,
    plan::Plan,
    run,
    tally::Tally,
    vm::{self, Boot},
};
use crate::{
    controlplane::{ASSETS, older},
    launch,
    mutants::{self, Counts},
    setup::{self, Item},
    terminal::print,
    workspace,
};

/// The variable that has tests with a long form run it.
const SOAK: (&str, &str) = ("HEADROOM_SOAK", "1");

/// One part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// About how long it takes on two CPUs.
    pub(super) lasts: &'static str,
    /// What its result depends on: folders of the workspace. As long as no commit touches them it stays.
    pub(super) of: &'static [&'static str],
    work: Work,
}

/// What a part does.
#[derive(Debug)]
enum Work {
    /// Something on this machine.
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
            of: &["."],
            work: Work::Here(work),
        }
    }

    const fn boot(name: &'static str, series: &'static str, boot: Boot) -> Self {
        let (about, lasts) = match boot {
            Boot::Plain => (
                "the kernel tests on Debian's kernel, emulated",
                "a quarter of an hour",
            ),
            Boot::LockedDown => ("the same kernel locked down", "some minutes"),
            Boot::Short => ("the same kernel short of memory", "ten minutes"),
            Boot::NoPressure => ("the same kernel with `psi=0`", "some minutes"),
            Boot::Isolated => ("the same kernel with `isolcpus=1`", "some minutes"),
            Boot::FourCpus => ("quotas on the same kernel with four CPUs", "some minutes"),
        };
        Self {
            name,
            about,
            lasts,
            of: &["agent", "agent-ebpf"],
            work: Work::Boot(series, boot),
        }
    }

    /// Does it, and counts its tests.
    ///
    /// # Errors
    /// If it cannot be done; failed tests are none.
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

/// All parts.
pub(super) const PARTS: [Part; 20] = [
    Part::here(
        "interleavings",
        "a million random interleavings of writers of one node",
        "a quarter of an hour",
        || model("interleavings", ("HEADROOM_INTERLEAVINGS", "1000000")),
    ),
    Part::here(
        "days",
        "fifty thousand random days of a node",
        "a quarter of an hour",
        || model("days", ("HEADROOM_DAYS", "50000")),
    ),
    Part::here(
        "quotas",
        "a million random interleavings around a tree of quotas",
        "half an hour",
        || model("quotas", ("HEADROOM_QUOTAS", "1000000")),
    ),
    Part::here(
        "measurements",
        "tests that measure for minutes: accuracy, and reactions in production timing",
        "half an hour",
        measurements,
    ),
    Part::here(
        "soaks",
        "tests on a real API server in their long form",
        "three quarters of an hour",
        soaks,
    ),
    Part::here(
        "older-api-server",
        "people on their way to the webhook through the API server of an older release",
        "ten minutes, and a quarter of an hour for its first build",
        older_api_server,
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
        "mutants of the rules that decide what a node publishes",
        "hours",
        mutants,
    ),
];

/// What a part may be asked for by.
pub(in crate::suite) fn names() -> PossibleValuesParser {
    PARTS.iter().map(|part| part.name).into()
}

/// A model test of the webhook with so many runs of a new series, optimised. The start of the series is printed, so
/// that it can be run again.
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

/// Another one each second.
fn seed() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// Tests that measure, in their long form.
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

/// Tests that go on for minutes, in their long form.
fn soaks() -> Result<Tally> {
    long_form(
        &tests()?,
        Kind::Apiserver,
        &[
            "deferred_resize::",
            "lagging_kubelet::",
            "replica_kills::",
            "strangers::",
        ],
        SOAK,
    )
}

/// Tests of the port-forward and of the roles, with an API server to which opening one is a `get` alone.
fn older_api_server() -> Result<Tally> {
    let plan = tests()?;
    let folder = older::ensure()?;
    let tests = ["port_forward::", "rights_of_people::"];
    long_form(&plan, Kind::Apiserver, &tests, (ASSETS, folder))
}

/// Tests whose names begin so, one after another, with a variable set.
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
        let those = run::counted(&mut command)?.tally;
        ensure!(those.passed + those.failed > 0, "there is no test {name}");
        tally += those;
    }
    Ok(tally)
}

fn tests() -> Result<Plan> {
    let (ready, plan) = setup::run_beside(&Item::all(), launch::costs_of_tests(), Plan::build)?;
    ready.check_all()?;
    Ok(plan)
}

/// A mutant that no test catches is a failed test.
fn mutants() -> Result<Tally> {
    setup::run(&[Item::CargoMutants])?.check_all()?;
    let Counts {
        caught,
        missed,
        unviable,
    } = mutants::count_of_rules()?;
    Ok(Tally {
        passed: caught,
        failed: missed,
        skipped: unviable,
    })
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
