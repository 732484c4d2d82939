//! Finds or installs make, which builds jemalloc, the memory allocator of the webhook.

use anyhow::{Context as _, Result};

use super::debian::{self, Package};
use crate::workspace;

const MAKE: Package = Package {
    name: "make",
    why: "builds jemalloc, the memory allocator of the webhook",
};

/// Installs make unless it is on `PATH`.
///
/// # Errors
/// If it cannot be installed; the message has instructions.
pub fn ensure() -> Result<()> {
    if workspace::on_path(MAKE.name).is_some() {
        return Ok(());
    }
    debian::ensure(&[MAKE]).context("make is needed to build jemalloc, the memory allocator of the webhook")
}
