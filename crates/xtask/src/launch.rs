//! Builds programs of this workspace, and replaces the current process by one of them.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    cpu_time,
    terminal::{print, span},
    workspace,
};

/// Environment variable of programs that `cargo xtask` starts: [`PROGRAMS`] are up to date and need no build.
pub const BUILT: &str = "HEADROOM_PROGRAMS_BUILT";
/// File names of the programs that tests, demo and benches start: Headroom's own, and the load of pods.
pub const PROGRAMS: [&str; 4] = [
    "headroom-agent",
    "headroom-webhook",
    "kubectl-headroom",
    "headroom-load",
];
/// Builds that need less CPU time are not reported.
const REPORTED_FROM: Duration = Duration::from_secs(10);
/// The smallest test target of the workspace.
const SMALL_TEST: &str = "command_line";
/// CPU time of a first build, in seconds.
const FIRST_BUILD_S: u64 = 610;
const FIRST_BUILD_OF_TESTS_S: u64 = 930;
/// Output folders of the dev and the release profile.
const FOLDERS: [&str; 2] = ["debug", "release"];

/// The folder of built programs.
pub fn folder(is_release: bool) -> PathBuf {
    let [debug, release] = FOLDERS;
    workspace::target().join(if is_release { release } else { debug })
}

/// Approximate CPU time of a first build of these programs; zero if all of them exist.
pub fn costs(names: &[&str], is_release: bool) -> Duration {
    let folder = folder(is_release);
    let are_there = names.iter().all(|name| folder.join(name).is_file());
    Duration::from_secs(if are_there { 0 } else { FIRST_BUILD_S })
}

/// Approximate CPU time of a first build of all tests; zero if they have been built before.
pub fn costs_of_tests() -> Duration {
    let folder = folder(false).join("deps");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_there = entries
        .into_iter()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("apiserver-"));
    Duration::from_secs(if is_there { 0 } else { FIRST_BUILD_OF_TESTS_S })
}

/// Builds programs by name.
///
/// Always selects the whole workspace: a different package selection changes the features of shared dependencies, and cargo
/// would rebuild them. A dev build includes one test for the same reason, so that `cargo xtask test` reuses it. Release builds
/// are for benches and leave out the features of tests.
///
/// # Errors
/// If a build fails; cargo prints the reason.
pub fn build(names: &[&str], is_release: bool) -> Result<()> {
    let mut command = cargo(names, is_release);
    let start = Instant::now();
    let (status, took) =
        cpu_time::wait(&mut command.spawn().context("start cargo")?).context("await cargo")?;
    if !status.success() {
        bail!("{} could not be built ({status})", names.join(", "));
    }
    if took >= REPORTED_FROM {
        print(format!(
            "  {:>12}  Headroom's programs: done, {} s of CPU time",
            span(start.elapsed()),
            took.as_secs()
        ));
    }
    Ok(())
}

/// The cargo command of [`build`].
pub(crate) fn cargo(names: &[&str], is_release: bool) -> Command {
    let mut command = workspace::cargo();
    command.args(["build", "--workspace"]);
    for name in names {
        command.args(["--bin", name]);
    }
    if is_release {
        command.arg("--release");
    } else {
        command.args(["--test", SMALL_TEST]);
    }
    command
}

/// Builds programs by name unless [`BUILT`] is set.
///
/// # Errors
/// Errors of [`build`].
pub fn ensure(names: &[&str], is_release: bool) -> Result<()> {
    if env::var_os(BUILT).is_some() {
        return Ok(());
    }
    build(names, is_release)
}

/// Becomes a built program with these arguments; returns only if that fails.
///
/// # Errors
/// If it cannot be executed.
pub fn become_program(name: &str, is_release: bool, arguments: &[OsString]) -> Result<()> {
    execute(Command::new(folder(is_release).join(name)).args(arguments))
}

/// Like [`become_program`], with [`BUILT`] set: the caller has built [`PROGRAMS`] as well.
///
/// # Errors
/// Errors of [`become_program`].
pub fn become_with_programs(name: &str, arguments: &[OsString]) -> Result<()> {
    execute(
        Command::new(folder(false).join(name))
            .args(arguments)
            .env(BUILT, "1"),
    )
}

/// Becomes this command; returns only if that fails.
///
/// # Errors
/// If it cannot be executed.
pub fn execute(command: &mut Command) -> Result<()> {
    let error = command.exec();
    Err(error).with_context(|| format!("start {}", command.get_program().display()))
}
