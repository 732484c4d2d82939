//! `cargo xtask mutants`: changes the code of a path in small ways and checks that a test fails for each change.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::{
    setup::{self, Item, cargo_tool::MUTANTS},
    terminal::print,
    workspace,
};

/// The least share of mutants that a test has to catch, in percent.
const LEAST: u32 = 97;
/// What is mutated where no path is given: the rules that decide what a node publishes.
const RULES: [&str; 5] = [
    "crates/domain/src/capacity.rs",
    "crates/domain/src/hint.rs",
    "crates/domain/src/policy.rs",
    "crates/domain/src/ratio.rs",
    "crates/domain/src/quantity.rs",
];
/// How cargo-mutants ends when it went through all mutants: each was caught, some were not, or tests went on for too long.
const WENT_THROUGH: [i32; 3] = [0, 2, 3];
/// Tests that go on for this many times as long as without a mutant will not end, and never sooner than after this many
/// seconds.
const ENDLESS: &str = "5";
const ENDLESS_S: &str = "60";

/// `cargo xtask mutants`.
#[derive(Debug, Clone, Args)]
pub struct Mutants {
    /// Source files or folders of them, as in `crates/domain/src/capacity.rs`. Without one, the rules that decide what a
    /// node publishes.
    #[arg(value_name = "PATH", default_values_t = RULES.map(str::to_owned))]
    paths: Vec<String>,
    /// Only lists the mutants.
    #[arg(long)]
    list: bool,
    /// Only each Nth mutant, from the Kth on, counted from 0: all N parts together are all mutants, and one of them is a
    /// sample that nobody chose.
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
}

impl Mutants {
    /// Gets cargo-mutants, runs it, and says how many mutants were caught and which were not.
    ///
    /// # Errors
    /// If a path is not in a package of this workspace, cargo-mutants cannot be got, or too many mutants survive.
    pub fn run(&self) -> Result<()> {
        for path in &self.paths {
            let place = workspace::root().join(path);
            ensure!(
                place.exists(),
                "there is no {path} in {}",
                workspace::root().display()
            );
        }
        setup::run(&[Item::CargoMutants])?.check_all()?;
        if self.list {
            let status = cargo_mutants(&self.paths, self.shard.as_deref())
                .arg("--list")
                .status()
                .context("start cargo mutants")?;
            ensure!(status.success(), "cargo mutants ended with {status}");
            return Ok(());
        }
        let Counts {
            caught,
            missed,
            unviable,
        } = count(&self.paths, self.shard.as_deref())?;
        let all = caught + missed;
        ensure!(all > 0, "there is nothing to mutate in {}", self.paths.join(", "));
        for survivor in lines("missed.txt") {
            print(format!("survived: {survivor}"));
        }
        print(format!(
            "{caught} of {all} mutants caught, {unviable} do not compile"
        ));
        ensure!(
            caught * 100 >= all * LEAST,
            "fewer than {LEAST} % of the mutants are caught"
        );
        Ok(())
    }
}

/// How the mutants of some paths ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// A test failed, or went on for too long.
    pub caught: u32,
    /// No test failed.
    pub missed: u32,
    /// They do not compile.
    pub unviable: u32,
}

/// Runs the mutants of the rules: see [`count`].
///
/// # Errors
/// As [`count`].
pub fn count_of_rules() -> Result<Counts> {
    count(&RULES.map(str::to_owned), None)
}

/// Runs the mutants of these paths, or of a part of them, with the tests of their packages.
///
/// # Errors
/// If cargo-mutants cannot be started, or breaks off, as it does where a test fails without any mutant.
pub fn count(paths: &[String], shard: Option<&str>) -> Result<Counts> {
    let mut cargo = cargo_mutants(paths, shard);
    cargo
        .arg("--output")
        .arg(workspace::target().join("mutants"))
        .args([
            "--timeout-multiplier",
            ENDLESS,
            "--minimum-test-timeout",
            ENDLESS_S,
        ])
        // Examples in documentation take a compiler each, and no rule is held by one.
        .args(["--cargo-test-arg", "--tests"]);
    let status = cargo.status().context("start cargo mutants")?;
    ensure!(
        status.code().is_some_and(|code| WENT_THROUGH.contains(&code)),
        "cargo mutants broke off with {status}"
    );
    let number = |name: &str| u32::try_from(lines(name).len()).unwrap_or(u32::MAX);
    Ok(Counts {
        caught: number("caught.txt").saturating_add(number("timeout.txt")),
        missed: number("missed.txt"),
        unviable: number("unviable.txt"),
    })
}

/// cargo-mutants for the source files of these paths. It works in a copy of the workspace, one mutant after another, and
/// builds only the package that the mutant is in.
fn cargo_mutants(paths: &[String], shard: Option<&str>) -> Command {
    let mut cargo = workspace::cargo();
    cargo
        .args([
            MUTANTS.subcommand(),
            "--workspace",
            "--no-shuffle",
            "--colors",
            "never",
        ])
        // Nothing that was built or found before is copied.
        .args(["--gitignore", "true"])
        // Where the copy is, not where this workspace is built.
        .env_remove("CARGO_TARGET_DIR")
        // What is built hundreds of times is built in parts, and nobody steps through it.
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "false");
    for pattern in paths.iter().flat_map(|path| patterns(path)) {
        cargo.arg("--file").arg(pattern);
    }
    if let Some(shard) = shard {
        cargo.args(["--sharding", "round-robin", "--shard", shard]);
    }
    cargo
}

/// The source files: of a folder, all of them, and of a file also those in the folder of its name.
fn patterns(path: &str) -> Vec<String> {
    match path.strip_suffix(".rs") {
        Some(room) => vec![path.to_owned(), format!("{room}/**/*.rs")],
        None => vec![format!("{}/**/*.rs", path.trim_end_matches('/'))],
    }
}

/// The lines of one of the lists that the last run left.
fn lines(name: &str) -> Vec<String> {
    let list = workspace::target()
        .join(Path::new("mutants/mutants.out"))
        .join(name);
    let text = fs::read_to_string(list).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stands_for_its_room_and_a_folder_for_what_is_in_it() {
        assert_eq!(patterns("a/b.rs"), ["a/b.rs", "a/b/**/*.rs"]);
        assert_eq!(patterns("a/b/"), ["a/b/**/*.rs"]);
    }

    #[test]
    fn a_path_that_is_not_there_is_refused() {
        let mutants = Mutants {
            paths: vec!["crates/nowhere.rs".to_owned()],
            list: false,
            shard: None,
        };
        let error = mutants.run().expect_err("no path").to_string();
        assert!(error.starts_with("there is no crates/nowhere.rs in "), "{error}");
    }

    #[test]
    fn the_rules_are_there() {
        for path in RULES {
            assert!(workspace::root().join(path).is_file(), "{path}");
        }
    }
}
