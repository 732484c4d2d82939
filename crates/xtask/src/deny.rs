//! `cargo xtask deny`: checks all dependencies against the rules in `deny.toml`.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::{
    setup::{self, Item, cargo_tool::DENY},
    terminal::print,
    workspace,
};

/// Checks that need no network.
const OFFLINE_CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Checks licences, bans and sources. Checks advisories if their database can be fetched, and prints a note otherwise.
///
/// # Errors
/// If a dependency violates `deny.toml` or has an advisory, or cargo-deny cannot be installed.
pub fn check() -> Result<()> {
    setup::run(&[Item::CargoDeny])?.check_all()?;
    ensure!(
        deny("check", &OFFLINE_CHECKS).status()?.success(),
        "a dependency violates deny.toml"
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
            "Advisories are not checked, because their database cannot be fetched: {}",
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
