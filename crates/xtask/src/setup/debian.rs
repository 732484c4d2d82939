//! Installs missing Debian packages.

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

/// A package and its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    pub name: &'static str,
    /// Purpose, to complete "NAME: ...".
    pub why: &'static str,
}

/// Serialises apt: parallel lanes of set-up may install packages at the same time, and apt waits only for some of its locks.
static APT: Mutex<()> = Mutex::new(());

/// Installs the packages that are missing.
///
/// # Errors
/// If this is no Debian, the user is not root, this release lacks a package, or apt fails. The message names the missing
/// packages and how to install them.
pub fn ensure(packages: &[Package]) -> Result<()> {
    let _apt = lock_apt();
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    if workspace::on_path("apt-get").is_none() {
        bail!(
            "this system has no apt-get; install its equivalents of {}",
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
            "only root can install packages; run: sudo apt-get install {}",
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

fn lock_apt() -> MutexGuard<'static, ()> {
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
    // dpkg-query exits with 1 if a name is unknown, and still lists the others.
    let output = query
        .output()
        .context("list installed packages with dpkg-query")?;
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
    fn removed_packages_do_not_count_as_installed() {
        let text = "installed gcc\nconfig-files vim\nnot-installed llvm-22-dev\n";
        assert_eq!(parse_installed(text), BTreeSet::from(["gcc".to_owned()]));
    }
}
