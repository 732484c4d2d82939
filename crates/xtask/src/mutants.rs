//! `cargo xtask mutants`: changes the code of a path in small ways and looks whether a test fails for each.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::{
    setup::{self, Item, cargo_tool::MUTANTS},
    terminal::say,
    workspace,
};

/// The least share of mutants that a test has to catch, in percent.
const LEAST: u32 = 97;

/// `cargo xtask mutants`.
#[derive(Debug, Clone, Args)]
pub struct Mutants {
    /// A source file or a folder of them, as in `crates/domain/src/capacity.rs`.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Only lists the mutants.
    #[arg(long)]
    list: bool,
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
            let mut cargo = workspace::cargo();
            cargo.args([MUTANTS.subcommand(), "--workspace", "--list", "--colors", "never"]);
            files(&mut cargo, &self.paths);
            let status = cargo.status().context("start cargo mutants")?;
            ensure!(status.success(), "cargo mutants ended with {status}");
            return Ok(());
        }
        let Counts {
            caught,
            missed,
            unviable,
        } = count(&self.paths)?;
        let all = caught + missed;
        ensure!(all > 0, "there is nothing to mutate in {}", self.paths.join(", "));
        for survivor in lines("missed.txt") {
            say(format!("survived: {survivor}"));
        }
        say(format!(
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

/// Runs the mutants of these paths with the tests of their packages. A run that breaks off counts as one that was missed.
///
/// # Errors
/// If cargo-mutants cannot be started.
pub fn count(paths: &[String]) -> Result<Counts> {
    let output = workspace::target().join("mutants");
    let mut cargo = workspace::cargo();
    cargo.args([
        MUTANTS.subcommand(),
        "--workspace",
        "--no-shuffle",
        "--colors",
        "never",
    ]);
    cargo.arg("--output").arg(&output);
    files(&mut cargo, paths);
    // It ends with a status of its own where mutants survive; they are counted below.
    let status = cargo.status().context("start cargo mutants")?;
    let number = |name: &str| u32::try_from(lines(name).len()).unwrap_or(u32::MAX);
    let missed = number("missed.txt");
    let caught = number("caught.txt").saturating_add(number("timeout.txt"));
    let has_broken_off = !status.success() && missed == 0 && number("timeout.txt") == 0;
    Ok(Counts {
        caught,
        missed: missed + u32::from(has_broken_off),
        unviable: number("unviable.txt"),
    })
}

/// Names the source files: of a folder, all of them, and of a file also those in the folder of its name.
fn files(cargo: &mut std::process::Command, paths: &[String]) {
    for path in paths {
        for pattern in patterns(path) {
            cargo.arg("--file").arg(pattern);
        }
    }
}

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
        };
        let error = mutants.run().expect_err("no path").to_string();
        assert!(error.starts_with("there is no crates/nowhere.rs in "), "{error}");
    }
}
