//! Builds the programs of an earlier commit, for the test of an upgrade: a work tree and a target folder of its own.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use super::step;
use crate::{terminal::print, workspace};

/// The commit that an upgrade starts from. There is no release yet: the last commit before managed certificates, the uninstaller
/// and the second round of security.
const COMMIT: &str = "fc09ddda";
/// Packages of the installed programs.
const PACKAGES: [&str; 3] = ["headroom-webhook", "headroom-agent", "kubectl-headroom"];

/// Folder with the programs of the earlier commit. Builds them once.
///
/// # Errors
/// If git does not have the commit, as in a shallow clone, or the build fails; the message has the end of its log.
pub fn ensure() -> Result<PathBuf> {
    let folder = workspace::target().join("earlier").join(COMMIT);
    let (tree, target) = (folder.join("tree"), folder.join("target"));
    let programs = target.join("debug");
    if PACKAGES.iter().all(|name| programs.join(name).is_file()) {
        return Ok(programs);
    }
    print(format!(
        "Building the programs of commit {COMMIT}, because users upgrade from earlier versions (once; a first build of the workspace)."
    ));
    if !tree.is_dir() {
        let mut git = Command::new("git");
        git.current_dir(workspace::root())
            .args(["worktree", "add", "--force", "--detach"])
            .arg(&tree)
            .arg(COMMIT);
        step::run("earlier commit", &mut git).context("check out the earlier commit")?;
    }
    let mut cargo = workspace::cargo();
    cargo
        .current_dir(&tree)
        .env("CARGO_TARGET_DIR", &target)
        .args(["build", "--bins"])
        .args(PACKAGES.iter().flat_map(|name| ["--package", name]));
    step::run("earlier programs", &mut cargo)?;
    Ok(programs)
}
