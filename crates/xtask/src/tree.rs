//! `cargo xtask deny`: what the dependency tree may contain, checked as `deny.toml` says.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::{
    setup::{self, Item, cargo_tool::DENY},
    terminal::say,
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
    let fetched = deny("fetch", &["db"]).stderr(Stdio::null()).status()?;
    if fetched.success() {
        ensure!(
            deny("check", &["advisories"]).status()?.success(),
            "a dependency has an advisory"
        );
    } else {
        say("The database of advisories cannot be had here: advisories are not checked.");
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
