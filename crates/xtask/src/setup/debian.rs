//! Debian packages: finds the missing ones, and installs them where possible.

mod lists;

use std::{
    collections::BTreeSet,
    fs,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result, bail};

pub use self::lists::Lists;
use super::step;
use crate::{terminal::print, workspace};

/// A package and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// Its name in Debian.
    pub name: &'static str,
    /// Why it is needed, as the end of "NAME: ...".
    pub why: &'static str,
}

/// One apt at a time: what is got side by side may want packages at once, and apt waits for some of its locks only.
static APT: Mutex<()> = Mutex::new(());

/// Installs what is missing of the packages; with nothing missing it does nothing.
///
/// # Errors
/// If this is no Debian, the user is not root, a package is not in this release, or apt fails. The message says which
/// packages are missing and how to get them.
pub fn ensure(packages: &[Package]) -> Result<()> {
    let _apt = alone();
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    if workspace::on_path("apt-get").is_none() {
        bail!(
            "there is no apt-get here; install what this system calls {}",
            names.join(" ")
        );
    }
    let installed = installed(&names)?;
    let missing: Vec<&Package> = packages
        .iter()
        .filter(|package| !installed.contains(package.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if !rustix::process::geteuid().is_root() {
        bail!(
            "only root may install packages; run: sudo apt-get install {}",
            names.join(" ")
        );
    }
    print("Installing Debian packages:");
    for Package { name, why } in missing {
        print(format!("  {name}: {why}"));
    }
    let lists = Lists::own();
    lists.update_alone()?;
    let unknown = lists.without_candidate(&names)?;
    if !unknown.is_empty() {
        bail!("{} has no package {}", release(), unknown.join(" "));
    }
    step::run(
        "apt-install",
        apt()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&names),
    )
}

fn alone() -> MutexGuard<'static, ()> {
    APT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn apt() -> Command {
    let mut apt = Command::new("apt-get");
    // Another apt may be running, as unattended upgrades do.
    apt.env("DEBIAN_FRONTEND", "noninteractive")
        .args(["--quiet", "-o", "DPkg::Lock::Timeout=300"]);
    apt
}

fn installed(names: &[&str]) -> Result<BTreeSet<String>> {
    let mut query = Command::new("dpkg-query");
    query
        .args(["--show", "--showformat", "${db:Status-Status} ${Package}\n"])
        .args(names);
    // It exits with 1 when one of the names is unknown, and still lists the others.
    let output = query.output().context("ask dpkg which packages are installed")?;
    Ok(parse_installed(&String::from_utf8_lossy(&output.stdout)))
}

fn parse_installed(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("installed "))
        .map(str::to_owned)
        .collect()
}

fn release() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("this system".to_owned(), |name| name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_count_as_installed() {
        let text = "installed gcc\nconfig-files vim\nnot-installed llvm-22-dev\n";
        assert_eq!(parse_installed(text), BTreeSet::from(["gcc".to_owned()]));
    }
}
