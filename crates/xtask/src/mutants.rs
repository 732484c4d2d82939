//! `cargo xtask mutants`: installs cargo-mutants if it is missing, and becomes it. `.cargo/mutants.toml` configures it.

use std::{ffi::OsString, process::Command};

use anyhow::Result;

use crate::{
    launch,
    setup::{self, Item, cargo_tool::MUTANTS},
    workspace,
};

/// `cargo mutants`, in the workspace.
pub fn command() -> Command {
    let mut cargo = workspace::cargo();
    cargo
        .arg(MUTANTS.subcommand())
        // Each copy of the workspace needs a target directory of its own.
        .env_remove("CARGO_TARGET_DIR");
    cargo
}

/// Becomes `cargo mutants` with these arguments; returns only on errors.
///
/// # Errors
/// If cargo-mutants cannot be installed or started.
pub fn run(arguments: &[OsString]) -> Result<()> {
    setup::run(&[Item::CargoMutants])?.check_all()?;
    launch::execute(command().args(arguments))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn configured_source_files_exist() {
        let config =
            fs::read_to_string(workspace::root().join(".cargo/mutants.toml")).expect("configuration");
        let globs = config
            .lines()
            .filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
        let files: Vec<&str> = globs.filter(|glob| !glob.contains('*')).collect();
        assert!(!files.is_empty());
        for file in files {
            assert!(workspace::root().join(file).is_file(), "{file}");
        }
    }
}
