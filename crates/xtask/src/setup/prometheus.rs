//! Finds a Prometheus server and promtool on `PATH`, or unpacks Debian's package without installing it. Tests of
//! `kubectl headroom advise` use them.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

use super::debian::Lists;
use crate::workspace;

/// The package with both programs. Installing it would start a server on this machine.
const PACKAGE: &str = "prometheus";

/// Paths of the two programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prometheus {
    pub server: PathBuf,
    /// `promtool`, which writes blocks of samples.
    pub tool: PathBuf,
}

/// Both programs, if they are installed or unpacked.
pub fn find() -> Option<Prometheus> {
    let unpacked = folder().join("usr/bin");
    let program = |name: &str| {
        workspace::on_path(name).or_else(|| Some(unpacked.join(name)).filter(|path| path.is_file()))
    };
    Some(Prometheus {
        server: program("prometheus")?,
        tool: program("promtool")?,
    })
}

/// Downloads and unpacks Debian's package.
///
/// # Errors
/// If the folder cannot be created, or apt is missing or fails.
pub fn ensure() -> Result<()> {
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    if !Lists::own().is_known(PACKAGE)? {
        Lists::own().update()?;
    }
    Lists::own().unpack(PACKAGE, &folder)
}

fn folder() -> PathBuf {
    workspace::target().join("prometheus")
}
