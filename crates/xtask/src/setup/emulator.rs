//! Finds or installs QEMU and `mke2fs`: the emulator of a machine with another kernel, and the maker of its disk.

use anyhow::Result;

use super::debian::{self, Package};
use crate::workspace;

/// Emulates x86-64.
pub const QEMU: &str = "qemu-system-x86_64";
/// Makes a file system with files in it.
pub const MKE2FS: &str = "mke2fs";

const PACKAGES: [Package; 2] = [
    Package {
        name: "qemu-system-x86",
        why: "emulates a machine for the tests on other kernels",
    },
    Package {
        name: "e2fsprogs",
        why: "makes the disk of that machine",
    },
];

/// What there is, or `None` if it must be got.
pub fn find() -> Option<String> {
    workspace::on_path(MKE2FS)?;
    Some(workspace::on_path(QEMU)?.display().to_string())
}

/// Installs what is missing.
///
/// # Errors
/// As [`debian::ensure`].
pub fn ensure() -> Result<()> {
    debian::ensure(&PACKAGES)
}
