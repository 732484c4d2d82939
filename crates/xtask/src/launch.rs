//! Builds programs of this workspace, and executes one of them in place of the current process.

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

/// The variable that tells a program which `cargo xtask` starts that [`PROGRAMS`] have just been built.
pub const BUILT: &str = "HEADROOM_PROGRAMS_BUILT";
/// The product's programs and the loads of pods: what tests, demo and benches start, by the names of
/// their files.
pub const PROGRAMS: [&str; 4] = [
    "headroom-agent",
    "headroom-webhook",
    "kubectl-headroom",
    "headroom-load",
];
/// Builds that take less CPU time are not reported.
const TOLD_FROM: Duration = Duration::from_secs(10);
/// The smallest test there is.
const DOOR: &str = "command_line";
/// Seconds of CPU time of a first build.
const FIRST_BUILD_S: u64 = 610;
const FIRST_BUILD_OF_TESTS_S: u64 = 930;
/// The profile's folder by whether it optimises.
const FOLDERS: [&str; 2] = ["debug", "release"];

/// Where cargo puts programs.
pub fn folder(is_release: bool) -> PathBuf {
    let [debug, release] = FOLDERS;
    workspace::target().join(if is_release { release } else { debug })
}

/// CPU time that a first build of our programs takes, about; nothing where they have been built before.
pub fn costs(names: &[&str], is_release: bool) -> Duration {
    let folder = folder(is_release);
    let are_there = names.iter().all(|name| folder.join(name).is_file());
    Duration::from_secs(if are_there { 0 } else { FIRST_BUILD_S })
}

/// CPU time that a first build of all tests takes, about; nothing where they have been built before.
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
/// The selection of packages is always the whole workspace: another one has other features of what is shared, and all of
/// that would be built again. So would it be where tests ask for more features than programs do; hence a test is among what
/// is built without optimisation, and `cargo xtask test` finds everything as it needs it. Figures are measured without the
/// features of tests.
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
    } else {
        command.args(["--test", DOOR]);
    }
    let start = Instant::now();
    let (status, took) =
        cpu_time::wait(&mut command.spawn().context("start cargo")?).context("await cargo")?;
    if !status.success() {
        bail!("{} could not be built ({status})", names.join(", "));
    }
    if took >= TOLD_FROM {
        print(format!(
            "  {:>12}  our programs: done, {} s of CPU time",
            span(start.elapsed()),
            took.as_secs()
        ));
    }
    Ok(())
}

/// Builds programs by name unless `cargo xtask` has just built everything and said so by [`BUILT`].
///
/// # Errors
/// As [`build`].
pub fn ensure(names: &[&str], is_release: bool) -> Result<()> {
    if env::var_os(BUILT).is_some() {
        return Ok(());
    }
    build(names, is_release)
}

/// Becomes a program that was built, with these arguments; returns only if that fails.
///
/// # Errors
/// If it cannot be executed.
pub fn become_program(name: &str, is_release: bool, arguments: &[OsString]) -> Result<()> {
    execute(Command::new(folder(is_release).join(name)).args(arguments))
}

/// As [`become_program`], with [`PROGRAMS`] built beside it.
///
/// # Errors
/// As [`become_program`].
pub fn become_with_programs(name: &str, arguments: &[OsString]) -> Result<()> {
    execute(
        Command::new(folder(false).join(name))
            .args(arguments)
            .env(BUILT, "1"),
    )
}

fn execute(command: &mut Command) -> Result<()> {
    let error = command.exec();
    Err(error).with_context(|| format!("start {}", command.get_program().display()))
}
