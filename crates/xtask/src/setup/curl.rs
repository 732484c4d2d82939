//! Finds curl, or installs it: the demo shows a command with it.

use anyhow::Result;

use super::debian::{self, Package};
use crate::workspace;

/// Debian's package of it.
pub(super) const PACKAGE: Package = Package {
    name: "curl",
    why: "asks the agent for its status page, as the demo shows",
};

/// Where it is, or `None` if it must be got.
pub fn find() -> Option<String> {
    Some(workspace::on_path(PACKAGE.name)?.display().to_string())
}

/// Installs it.
///
/// # Errors
/// As [`debian::ensure`].
pub fn ensure() -> Result<()> {
    debian::ensure(&[PACKAGE])
}
