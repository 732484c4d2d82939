//! Finds or installs curl, which a command that the demo prints needs.

use anyhow::Result;

use super::debian::{self, Package};
use crate::workspace;

pub(super) const PACKAGE: Package = Package {
    name: "curl",
    why: "reads the agent's status page in a command that the demo prints",
};

/// Path of curl, if it is installed.
pub fn find() -> Option<String> {
    Some(workspace::on_path(PACKAGE.name)?.display().to_string())
}

/// Installs curl.
///
/// # Errors
/// Errors of [`debian::ensure`].
pub fn ensure() -> Result<()> {
    debian::ensure(&[PACKAGE])
}
