//! Finds or installs QEMU, which emulates a machine with another kernel, and `mke2fs`, which creates its disk.

use anyhow::Result;

use super::debian::{self, Package};
use crate::workspace;

pub const QEMU: &str = "qemu-system-x86_64";
pub const MKE2FS: &str = "mke2fs";

const PACKAGES: [Package; 2] = [
    Package {
        name: "qemu-system-x86",
        why: "emulates a machine for the tests on other kernels",
    },
    Package {
        name: "e2fsprogs",
        why: "creates the disk of that machine",
    },
];

/// Path of QEMU, if both programs are installed.
pub fn find() -> Option<String> {
    workspace::on_path(MKE2FS)?;
    Some(workspace::on_path(QEMU)?.display().to_string())
}

/// Installs both packages.
///
/// # Errors
/// Errors of [`debian::ensure`].
pub fn ensure() -> Result<()> {
    debian::ensure(&PACKAGES)
}
