//! The workspace: its folders, git commit, and the cargo commands that run in it.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

/// Enables unstable options of the test harness on a stable toolchain. Removed from the environment of [`cargo`]: cargo and
/// compilers that tests start must not see it.
pub(crate) const UNSTABLE: &str = "RUSTC_BOOTSTRAP";

/// The root of the workspace this program was built from.
pub fn root() -> PathBuf {
    let crates_xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    crates_xtask.ancestors().nth(2).unwrap_or(crates_xtask).to_owned()
}

/// Build output: `CARGO_TARGET_DIR` if set, else `target`.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Cargo, in the workspace, with the environment of a shell.
///
/// `cargo run` and `cargo test` set variables that describe the package. A nested cargo would take them as changed inputs of
/// build scripts, and rebuild those packages and their dependents each time.
pub fn cargo() -> Command {
    cleaned(Command::new(
        env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")),
    ))
}

/// Like [`cargo`], with another toolchain by its rustup name.
pub fn cargo_of(toolchain: &str) -> Command {
    let mut rustup = Command::new("rustup");
    rustup.args(["run", toolchain, "cargo"]);
    cleaned(rustup)
}

/// The command in the workspace, without inherited variables about a package.
fn cleaned(mut cargo: Command) -> Command {
    cargo.current_dir(root());
    let inherited = env::vars_os().map(|(key, _)| key);
    for key in inherited.filter(|key| key.to_str().is_some_and(describes_package)) {
        cargo.env_remove(key);
    }
    // Build scripts read it.
    cargo.env_remove(UNSTABLE);
    cargo
}

/// Suffix of a commit if files have changed since.
pub const DIRTY: &str = "-dirty";

/// The last commit that changed a file in these folders other than `aside`, abbreviated; with the suffix [`DIRTY`] if such a
/// file has uncommitted changes.
///
/// # Errors
/// If git is missing or this is no clone.
pub fn commit(folders: &[&str], aside: &str) -> Result<String> {
    let aside = format!(":!{aside}");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(root()).args(arguments).arg("--");
        output(git.args(folders).arg(&aside))
    };
    let commit = git(&["rev-list", "-1", "--abbrev-commit", "HEAD"])?;
    let changed = git(&["status", "--porcelain"])?;
    Ok(if changed.is_empty() {
        commit
    } else {
        commit + DIRTY
    })
}

/// Today's date in UTC, such as `2026-11-22`.
///
/// # Errors
/// If `date` cannot run.
pub fn day() -> Result<String> {
    output(Command::new("date").args(["--utc", "+%F"]))
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .current_dir(root())
        .output()
        .with_context(|| format!("start {name}"))?;
    ensure!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn describes_package(variable: &str) -> bool {
    ["CARGO_MANIFEST_", "CARGO_PKG_"]
        .iter()
        .any(|start| variable.starts_with(start))
}

/// The folder of the Go module that pins Kubernetes and etcd.
pub fn controlplane() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("controlplane")
}

/// The folder of the Go module that pins an older API server.
pub fn older_apiserver() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("older-apiserver")
}

/// The first program of that name on `PATH`.
pub fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_cargo_inherits_no_package_variables() {
        // Cargo runs this test, so the variables are there.
        assert!(env::var_os("CARGO_PKG_NAME").is_some());
        let cargo = cargo();
        let removed = cargo.get_envs().filter(|(_, value)| value.is_none());
        let removed: Vec<_> = removed.filter_map(|(key, _)| key.to_str()).collect();
        assert!(removed.contains(&"CARGO_PKG_NAME") && removed.contains(&"CARGO_MANIFEST_DIR"));
        assert!(
            removed
                .iter()
                .all(|key| describes_package(key) || *key == UNSTABLE)
        );
    }
}
