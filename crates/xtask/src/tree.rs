//! `cargo xtask deny`: checks the dependency tree against the rules in `deny.toml`.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::{
    setup::{self, Item, cargo_tool::DENY},
    terminal::print,
    workspace,
};

/// What is checked without asking anybody.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Checks licences, bans and sources; advisories too where their database can be had, and says so where it cannot.
///
/// # Errors
/// If something is in the tree that may not be, or the tool cannot be had.
pub fn check() -> Result<()> {
    setup::run(&[Item::CargoDeny])?.check_all()?;
    ensure!(
        deny("check", &CHECKS).status()?.success(),
        "the dependency tree has what deny.toml forbids"
    );
    let fetched = deny("fetch", &["db"]).output()?;
    if fetched.status.success() {
        ensure!(
            deny("check", &["advisories"]).status()?.success(),
            "a dependency has an advisory"
        );
    } else {
        let errors = String::from_utf8_lossy(&fetched.stderr).into_owned();
        let last = errors.lines().map(str::trim).rfind(|line| !line.is_empty());
        print(format!(
            "Advisories are not checked, as their database cannot be fetched: {}",
            last.unwrap_or("no reason given")
        ));
    }
    Ok(())
}

fn deny(command: &str, arguments: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo
        .args([DENY.subcommand(), "--log-level", "error", command])
        .args(arguments);
    cargo
}
