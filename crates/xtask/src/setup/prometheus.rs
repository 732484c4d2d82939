//! Finds a Prometheus server and its tool on `PATH`, or unpacks Debian's without installation. Tests of advice use
//! them.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

use super::debian::Lists;
use crate::workspace;

/// The package that has both. Installed it would start a server on this machine.
const PACKAGE: &str = "prometheus";

/// Where the two programs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prometheus {
    /// The server.
    pub server: PathBuf,
    /// Its tool, which writes blocks of samples.
    pub tool: PathBuf,
}

/// What there is, or `None` if it must be got.
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

/// Downloads and unpacks what is missing.
///
/// # Errors
/// If the folder cannot be made, there is no apt, or it fails.
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
