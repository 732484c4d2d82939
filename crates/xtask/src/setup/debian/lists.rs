//! The package lists of this system, or of another Debian release. Lists of another release are in a folder of their own,
//! and their packages are never installed.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{apt, lock_apt};
use crate::{setup::step, workspace};

/// Component of the archive with Debian's own packages.
const COMPONENT: &str = "main";

/// Package lists: the apt options that select them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lists {
    options: Vec<String>,
}

impl Lists {
    /// The lists of this system.
    pub const fn own() -> Self {
        Self { options: Vec::new() }
    }

    /// The lists of another release, by its code name, from the mirror of this system. They are empty until
    /// [`Self::update`]. All their files are in `folder`.
    ///
    /// # Errors
    /// If apt has no mirror of Debian, or a file cannot be written.
    pub fn of_release(codename: &str, folder: &Path) -> Result<Self> {
        let mirror = if let Some(mirror) = mirror()? {
            mirror
        } else {
            // The label of a mirror is in its package lists.
            Self::own().update()?;
            mirror()?.context("apt has no mirror of Debian")?
        };
        let folder = folder.join(codename);
        for inside in ["lists/partial", "cache/archives/partial"] {
            let inside = folder.join(inside);
            fs::create_dir_all(&inside).with_context(|| format!("make {}", inside.display()))?;
        }
        let [sources, status] = ["sources.list", "status"].map(|name| folder.join(name));
        fs::write(&sources, format!("deb {mirror} {codename} {COMPONENT}\n"))
            .with_context(|| format!("write {}", sources.display()))?;
        fs::write(&status, "").with_context(|| format!("write {}", status.display()))?;
        let set = [
            ("Dir::Etc::SourceList", sources),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::State::Lists", folder.join("lists")),
            ("Dir::State::Status", status),
            ("Dir::Cache", folder.join("cache")),
        ];
        let options = set
            .iter()
            .flat_map(|(name, path)| ["-o".to_owned(), format!("{name}={}", path.display())])
            .collect();
        Ok(Self { options })
    }

    /// Runs `apt-get update`.
    ///
    /// # Errors
    /// If apt fails.
    pub fn update(&self) -> Result<()> {
        let _apt = lock_apt();
        self.update_alone()
    }

    pub(super) fn update_alone(&self) -> Result<()> {
        step::run("apt-update", apt().args(&self.options).arg("update"))
    }

    /// Names with this prefix in the present lists. Some packages of these names may be unavailable.
    ///
    /// # Errors
    /// If apt cannot run.
    pub fn names(&self, start: &str) -> Result<Vec<String>> {
        let output = self.apt_cache(&["pkgnames", start])?;
        Ok(output.lines().map(str::to_owned).collect())
    }

    /// Downloads a package and unpacks it into `folder`, where the package file stays. Installs nothing.
    ///
    /// # Errors
    /// If apt or dpkg fails.
    pub fn unpack(&self, name: &str, folder: &Path) -> Result<()> {
        let _apt = lock_apt();
        let mut download = apt();
        download
            .args(&self.options)
            .args(["download", name])
            .current_dir(folder);
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

    /// True if the present lists, which may be old or empty, have an installable version.
    ///
    /// # Errors
    /// If apt cannot run.
    pub fn is_known(&self, name: &str) -> Result<bool> {
        let _apt = lock_apt();
        Ok(workspace::on_path("apt-cache").is_some() && self.without_candidate(&[name])?.is_empty())
    }

    /// The names without an installable version.
    pub(super) fn without_candidate(&self, names: &[&str]) -> Result<Vec<String>> {
        let mut arguments = vec!["policy"];
        arguments.extend(names);
        Ok(parse_policy(&self.apt_cache(&arguments)?, names))
    }

    fn apt_cache(&self, arguments: &[&str]) -> Result<String> {
        let mut apt = Command::new("apt-cache");
        apt.env("LC_ALL", "C").args(&self.options).args(arguments);
        let output = apt.output().context("list packages with apt-cache")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// URL of this system's mirror of Debian.
fn mirror() -> Result<Option<String>> {
    let output = Command::new("apt-get")
        .args([
            "indextargets",
            "--format",
            "$(LABEL) $(REPO_URI)",
            "Created-By: Packages",
        ])
        .output();
    let output = output.context("list mirrors with apt-get indextargets")?;
    Ok(parse_mirror(&String::from_utf8_lossy(&output.stdout)))
}

/// URL of the first mirror with the label `Debian`; security updates have another label.
fn parse_mirror(text: &str) -> Option<String> {
    text.lines()
        .find_map(|line| line.strip_prefix("Debian "))
        .map(str::to_owned)
}

/// The names without a candidate in the output of `apt-cache policy`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_without_a_candidate_are_unknown() {
        let text = "gcc:\n  Installed: (none)\n  Candidate: 4:12.2.0-3\n  Version table:\n     4:12.2.0-3 500\n\
                    llvm-22-dev:\n  Installed: (none)\n  Candidate: (none)\n";
        assert_eq!(
            parse_policy(text, &["gcc", "llvm-22-dev", "no-such-package"]),
            ["llvm-22-dev", "no-such-package"]
        );
    }

    #[test]
    fn mirror_of_security_updates_is_not_used() {
        let text = "Debian-Security http://security.example/\nDebian http://mirror.example/debian/\n";
        assert_eq!(
            parse_mirror(text).as_deref(),
            Some("http://mirror.example/debian/")
        );
        assert_eq!(parse_mirror("Other http://else.example/\n"), None);
    }

    #[test]
    fn files_of_another_release_are_in_its_folder() {
        let folder = tempfile::tempdir().expect("folder");
        let lists = Lists::of_release("bullseye", folder.path()).expect("lists");
        let own = folder.path().join("bullseye");
        let sources = fs::read_to_string(own.join("sources.list")).expect("sources");
        assert!(sources.ends_with(" bullseye main\n"), "{sources}");
        let inside = own.display().to_string();
        let outside = lists
            .options
            .iter()
            .filter(|option| option.contains('=') && !option.contains(&inside));
        assert_eq!(outside.collect::<Vec<_>>(), ["Dir::Etc::SourceParts=/dev/null"]);
    }
}
