//! The part `mutants` of the long run: runs cargo-mutants with its configuration, and counts the mutants by outcome.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::{
    mutants,
    setup::{self, Item},
    suite::tally::Tally,
    workspace,
};

/// Exit codes of cargo-mutants after all mutants were tried: all were caught, some were missed, some tests timed out.
const COMPLETE: [i32; 3] = [0, 2, 3];
/// The folder of its results, in the root of the workspace.
const OUTPUT: &str = "mutants.out";

/// A caught mutant counts as passed, a missed one as failed, one that does not compile as skipped.
pub(super) fn run() -> Result<Tally> {
    setup::run(&[Item::CargoMutants])?.check_all()?;
    let status = mutants::command().status().context("start cargo mutants")?;
    ensure!(
        status.code().is_some_and(|code| COMPLETE.contains(&code)),
        "cargo mutants ended early ({status})"
    );
    Ok(Tally {
        passed: count("caught.txt") + count("timeout.txt"),
        failed: count("missed.txt"),
        skipped: count("unviable.txt"),
    })
}

/// Mutants in one of the lists of the last run.
fn count(list: &str) -> u32 {
    let text = fs::read_to_string(workspace::root().join(OUTPUT).join(list)).unwrap_or_default();
    u32::try_from(text.lines().count()).unwrap_or(u32::MAX)
}
