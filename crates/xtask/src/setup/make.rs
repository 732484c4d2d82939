//! Finds make, or installs it: the C library that gives the webhook its memory is built with it.

use anyhow::{Context as _, Result};

use super::debian::{self, Package};
use crate::workspace;

const MAKE: Package = Package {
    name: "make",
    why: "builds jemalloc, from which the webhook has its memory",
};

/// Installs it unless it is there.
///
/// # Errors
/// If it is missing and cannot be installed; the message says how to get it.
pub fn ensure() -> Result<()> {
    if workspace::on_path(MAKE.name).is_some() {
        return Ok(());
    }
    debian::ensure(&[MAKE]).context("jemalloc, from which the webhook has its memory, is built with make")
}
