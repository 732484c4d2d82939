//! Finds or installs buildah, which builds container images, and busybox, the program in images of test pods.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::debian::{self, Package};
use crate::{elf::Elf, workspace};

pub const BUILDAH: &str = "buildah";

const PACKAGES: [Package; 2] = [
    Package {
        name: BUILDAH,
        why: "builds container images without a daemon",
    },
    Package {
        name: "busybox-static",
        why: "the only program in the images of test pods",
    },
];

/// Path of buildah, if both programs are installed.
pub fn find() -> Option<String> {
    busybox()?;
    Some(workspace::on_path(BUILDAH)?.display().to_string())
}

/// Path of a busybox that needs no libraries.
pub fn busybox() -> Option<PathBuf> {
    workspace::on_path("busybox").filter(|path| Elf::read(path).is_ok_and(|elf| elf.is_static))
}

/// Installs both programs.
///
/// # Errors
/// Errors of [`debian::ensure`].
pub fn ensure() -> Result<()> {
    debian::ensure(&PACKAGES)?;
    find()
        .map(drop)
        .context("buildah or a static busybox is not on PATH")
}
