//! Debian packages: which are missing, and getting them where that is possible.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result, bail};

use super::step;
use crate::{terminal::say, workspace};

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
    say("Installing Debian packages:");
    for Package { name, why } in missing {
        say(format!("  {name}: {why}"));
    }
    update_alone()?;
    let unknown = without_candidate(&names)?;
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

/// Gets the package lists anew.
///
/// # Errors
/// If apt fails.
pub fn update() -> Result<()> {
    let _apt = alone();
    update_alone()
}

fn update_alone() -> Result<()> {
    step::run("apt-update", apt().arg("update"))
}

fn alone() -> MutexGuard<'static, ()> {
    APT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names in the package lists at hand that begin so, some of packages that cannot be had.
///
/// # Errors
/// If apt cannot be asked.
pub fn names(start: &str) -> Result<Vec<String>> {
    let output = Command::new("apt-cache").args(["pkgnames", start]).output();
    let output = output.context("ask apt which packages it knows")?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect())
}

/// Downloads a package and unpacks it into the folder, where its file is left; installs nothing.
///
/// # Errors
/// If apt or dpkg fails.
pub fn unpack(name: &str, folder: &Path) -> Result<()> {
    let _apt = alone();
    let mut download = apt();
    download.args(["download", name]).current_dir(folder);
    step::run(&format!("download-{name}"), &mut download)?;
    let mut entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let package = entries
        .find_map(|entry| {
            Some(entry.ok()?.path()).filter(|path| path.extension().is_some_and(|end| end == "deb"))
        })
        .with_context(|| format!("apt-get download {name} left no package"))?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package).arg(folder);
    step::run(&format!("unpack-{name}"), &mut unpack)
}

/// True if the package lists at hand name an installable version; they may be old or empty.
///
/// # Errors
/// If apt cannot be asked.
pub fn is_known(name: &str) -> Result<bool> {
    let _apt = alone();
    Ok(workspace::on_path("apt-cache").is_some() && without_candidate(&[name])?.is_empty())
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

fn without_candidate(names: &[&str]) -> Result<Vec<String>> {
    let output = Command::new("apt-cache")
        .env("LC_ALL", "C")
        .arg("policy")
        .args(names)
        .output();
    let output = output.context("ask apt which packages it knows")?;
    Ok(parse_policy(&String::from_utf8_lossy(&output.stdout), names))
}

/// The names that `apt-cache policy` does not mention or has no candidate for.
fn parse_policy(text: &str, names: &[&str]) -> Vec<String> {
    let mut known = BTreeSet::new();
    let mut current = "";
    for line in text.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            current = name;
        } else if line
            .trim()
            .strip_prefix("Candidate: ")
            .is_some_and(|version| version != "(none)")
        {
            known.insert(current);
        }
    }
    names
        .iter()
        .filter(|name| !known.contains(*name))
        .map(|&name| name.to_owned())
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

    #[test]
    fn packages_without_a_candidate_are_unknown() {
        let text = "gcc:\n  Installed: (none)\n  Candidate: 4:12.2.0-3\n  Version table:\n     4:12.2.0-3 500\n\
                    llvm-22-dev:\n  Installed: (none)\n  Candidate: (none)\n";
        assert_eq!(
            parse_policy(text, &["gcc", "llvm-22-dev", "never-heard"]),
            ["llvm-22-dev", "never-heard"]
        );
    }
}
