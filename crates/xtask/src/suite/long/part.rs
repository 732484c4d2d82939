//! The parts of the long run: one row each.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};

use super::super::{Kind, plan::Plan, run, tally::Tally, vm};
use crate::{
    launch,
    mutants::{self, Counts},
    setup::{self, Item},
    workspace,
};

/// The variable that has tests with a long form run it.
const SOAK: &str = "HEADROOM_SOAK";

/// One part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// About how long it takes on two CPUs.
    pub(super) lasts: &'static str,
    pub(super) run: fn() -> Result<Tally>,
}

/// All parts, the shortest first.
pub(super) static PARTS: [Part; 7] = [
    Part {
        name: "interleavings",
        about: "a million random interleavings of writers of one node",
        lasts: "a quarter of an hour",
        run: || model("interleavings", ("HEADROOM_INTERLEAVINGS", "1000000")),
    },
    Part {
        name: "days",
        about: "fifty thousand random days of a node",
        lasts: "a quarter of an hour",
        run: || model("days", ("HEADROOM_DAYS", "50000")),
    },
    Part {
        name: "measurements",
        about: "tests that measure for minutes: accuracy, and reactions in production timing",
        lasts: "a quarter of an hour",
        run: measurements,
    },
    Part {
        name: "soaks",
        about: "tests on a real API server in their long form",
        lasts: "three quarters of an hour",
        run: soaks,
    },
    Part {
        name: "kernel-6.1",
        about: "the kernel tests on Debian's 6.1, emulated",
        lasts: "a quarter of an hour",
        run: || machine("6.1"),
    },
    Part {
        name: "kernel-6.12",
        about: "the kernel tests on Debian's 6.12, emulated",
        lasts: "a quarter of an hour",
        run: || machine("6.12"),
    },
    Part {
        name: "mutants",
        about: "mutants of the rules that decide what a node publishes",
        lasts: "hours",
        run: mutants,
    },
];

/// The names of all parts.
pub(in crate::suite) const NAMES: [&str; 7] = [
    "interleavings",
    "days",
    "measurements",
    "soaks",
    "kernel-6.1",
    "kernel-6.12",
    "mutants",
];

/// A model test of the webhook with so many runs of a new series, optimised. A failure tells the series.
fn model(name: &str, (variable, runs): (&str, &str)) -> Result<Tally> {
    let mut cargo = workspace::cargo();
    cargo
        .args([
            "test",
            "--release",
            "--package",
            "headroom-webhook",
            "--lib",
            name,
        ])
        .env(variable, runs)
        .env("HEADROOM_SEED", seed()?.to_string());
    Ok(run::counted(&mut cargo)?.tally)
}

/// Another one each second.
fn seed() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// Tests that measure, in their long form.
fn measurements() -> Result<Tally> {
    let plan = tests()?;
    let mut tally = long_form(&plan, Kind::Kernel, &["accuracy::"])?;
    tally += long_form(&plan, Kind::Apiserver, &["brake_reaction::", "skip::heartbeats"])?;
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
    )
}

/// Tests whose names begin so, one after another.
fn long_form(plan: &Plan, kind: Kind, names: &[&str]) -> Result<Tally> {
    let mut tally = Tally::default();
    for (program, name) in plan
        .of(kind)
        .flat_map(|program| names.iter().map(move |name| (program, name)))
    {
        let mut command = program.command();
        command
            .env(launch::BUILT, "1")
            .env(SOAK, "1")
            .args([name, "--include-ignored", "--test-threads=1"]);
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

fn machine(series: &str) -> Result<Tally> {
    let mut tally = Tally::default();
    for row in vm::run(&[series], None)? {
        tally += row.tally();
    }
    Ok(tally)
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
    fn every_part_can_be_named() {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        assert_eq!(names, NAMES);
    }
}
