//! Builds the static programs of images, and checks programs before they become part of an image.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};

use super::Image;
use crate::{
    cpu_time,
    elf::{Architecture, Elf},
    terminal::{print, span},
    workspace,
};

/// Mode of the agent's build script. An image without kernel programs would measure procfs only.
const BPF: &str = "HEADROOM_BPF";

/// Builds the static programs of these images, and returns their folder.
///
/// # Errors
/// If a build fails; cargo prints the reason.
pub(super) fn build(images: &[Image], profile: &str, architecture: Architecture) -> Result<PathBuf> {
    let target = architecture.static_target();
    let ours = images.iter().filter(|image| image.is_ours());
    let names: Vec<&str> = ours.map(|image| image.program()).collect();
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--target", target, "--profile", profile]);
    for name in &names {
        // By package, so that an image has no features of tests or benches.
        cargo.args(["--package", name, "--bin", name]);
    }
    if env::var_os(BPF).is_none() {
        cargo.env(BPF, "require");
    }
    if !names.is_empty() {
        let start = Instant::now();
        let mut child = cargo.spawn().context("start cargo")?;
        let (status, took) = cpu_time::wait(&mut child).context("await cargo")?;
        ensure!(
            status.success(),
            "{} could not be built for {target} ({status})",
            names.join(", ")
        );
        print(format!(
            "  {:>12}  programs of images: done, {} s of CPU time",
            span(start.elapsed()),
            took.as_secs()
        ));
    }
    // Cargo's folder of the dev profile has a name of its own.
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(workspace::target().join(target).join(folder))
}

/// Reads the program of an image from a folder.
///
/// # Errors
/// If it is missing, was built for another architecture, or needs shared libraries.
pub(super) fn read(image: Image, path: &Path, architecture: Architecture) -> Result<Vec<u8>> {
    let reference = image.reference();
    if !path.is_file() {
        bail!(
            "image {reference} for {architecture} needs the program {}, which does not exist",
            path.display()
        );
    }
    let elf = Elf::read(path).with_context(|| format!("image {reference} for {architecture}"))?;
    let found = elf
        .architecture
        .map_or("another architecture", Architecture::name);
    ensure!(
        elf.architecture == Some(architecture),
        "image {reference} is for {architecture}, but {} was built for {found}",
        path.display()
    );
    ensure!(
        elf.is_static,
        "image {reference} has no shared libraries, but {} for {architecture} needs them: build it with --target {}",
        path.display(),
        architecture.static_target()
    );
    fs::read(path).with_context(|| format!("read {}", path.display()))
}

/// Copies the programs of images to a folder.
///
/// # Errors
/// Errors of [`read`], or if a file cannot be written.
pub(super) fn copy(images: &[Image], from: &Path, architecture: Architecture, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    for image in images.iter().filter(|image| image.is_ours()) {
        let [from, to] = [from, to].map(|folder| folder.join(image.program()));
        read(*image, &from, architecture)?;
        fs::copy(&from, &to).with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}
