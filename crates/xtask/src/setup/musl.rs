//! Finds or installs the tools that build static programs for images: musl's compiler for C code, and Rust's standard library
//! for musl.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{
    debian::{self, Package},
    step,
};
use crate::{elf::Architecture, terminal::print, workspace};

/// Rust target of static programs for this machine.
pub const TARGET: &str = Architecture::OWN.static_target();
/// Compiler of the package.
const GCC: &str = "musl-gcc";
const TOOLS: Package = Package {
    name: "musl-tools",
    why: "compiles C code of static programs",
};

/// Path of the C compiler, if it and the standard library are installed.
pub fn find() -> Option<String> {
    let compiler = workspace::on_path(GCC).map(|path| path.display().to_string());
    compiler.filter(|_| has_library().is_ok_and(|has| has))
}

/// Installs both.
///
/// # Errors
/// Errors of [`debian::ensure`]; or if rustup cannot fetch the standard library.
pub fn ensure() -> Result<()> {
    debian::ensure(&[TOOLS])?;
    if has_library()? {
        return Ok(());
    }
    print(format!("Adding Rust's standard library for {TARGET}."));
    let mut rustup = Command::new("rustup");
    rustup
        .current_dir(workspace::root())
        .args(["target", "add", TARGET]);
    step::run("rustup-target", &mut rustup)
}

/// True if the pinned toolchain has the standard library of [`TARGET`].
fn has_library() -> Result<bool> {
    let output = Command::new("rustc")
        .current_dir(workspace::root())
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .context("start rustc")?;
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
