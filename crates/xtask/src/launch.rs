//! Builds programs of this workspace and becomes one of them.

use std::{ffi::OsString, os::unix::process::CommandExt as _, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::workspace;

/// The variable that tells a program which `cargo xtask` starts that [`PROGRAMS`] have just been built.
pub const BUILT: &str = "HEADROOM_PROGRAMS_BUILT";
/// The product's programs and the loads of pods: what tests, demo and benches start. [`crate::launch`] knows them by the
/// names of their files alone.
pub const PROGRAMS: [&str; 4] = [
    "headroom-agent",
    "headroom-webhook",
    "kubectl-headroom",
    "headroom-load",
];
/// The profile's folder by whether it optimises.
const FOLDERS: [&str; 2] = ["debug", "release"];

/// Where cargo puts programs.
pub fn folder(is_release: bool) -> PathBuf {
    let [debug, release] = FOLDERS;
    workspace::target().join(if is_release { release } else { debug })
}

/// Builds programs by name.
///
/// The selection of packages is always the whole workspace, as for tests: another one has other features of what is
/// shared, and all of that would be built again.
///
/// # Errors
/// If a build fails; cargo has said why.
pub fn build(names: &[&str], is_release: bool) -> Result<()> {
    let mut command = workspace::cargo();
    command.args(["build", "--workspace"]);
    for name in names {
        command.args(["--bin", name]);
    }
    if is_release {
        command.arg("--release");
    }
    let status = command.status().context("start cargo")?;
    if !status.success() {
        bail!("{} could not be built ({status})", names.join(", "));
    }
    Ok(())
}

/// Becomes a program that was built, with these arguments; returns only if that fails.
///
/// # Errors
/// If it cannot be executed.
pub fn become_program(name: &str, is_release: bool, arguments: &[OsString]) -> Result<()> {
    let path = folder(is_release).join(name);
    let mut command = Command::new(&path);
    command.args(arguments).env(BUILT, "1");
    Err(command.exec()).with_context(|| format!("start {}", path.display()))
}
