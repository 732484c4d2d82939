//! The releases of Kubernetes and etcd that the Go module pins. `Release` also checks whether a program found elsewhere
//! is of the pinned minor release.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::Component;
use crate::workspace;

/// The Go module of Kubernetes.
pub(super) const KUBERNETES: &str = "k8s.io/kubernetes";
const ETCD: &str = "go.etcd.io/etcd/server/v3";

/// The pinned releases, each like `v1.36.3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    kubernetes: String,
    etcd: String,
}

impl Release {
    /// Reads them from the module's `go.mod`.
    ///
    /// # Errors
    /// If it cannot be read or does not require them.
    pub fn pinned() -> Result<Self> {
        let path = workspace::controlplane().join("go.mod");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} does not require Kubernetes and etcd", path.display()))
    }

    fn parse(go_mod: &str) -> Option<Self> {
        Some(Self {
            kubernetes: required(go_mod, KUBERNETES)?,
            etcd: required(go_mod, ETCD)?,
        })
    }

    /// The release of Kubernetes.
    pub fn kubernetes(&self) -> &str {
        &self.kubernetes
    }

    /// True if the program says it is of the pinned minor release: an older etcd or API server lacks what we test.
    pub fn is_spoken_by(&self, component: Component, program: &Path) -> bool {
        let wanted = if component == Component::Etcd {
            &self.etcd
        } else {
            &self.kubernetes
        };
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            spoken(&text).is_some_and(|version| minor_of(version) == minor_of(wanted))
        })
    }
}

/// The version of a module that `go.mod` requires.
pub(super) fn required(go_mod: &str, module: &str) -> Option<String> {
    go_mod.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|&word| word == "require");
        (words.next()? == module).then(|| words.next().map(str::to_owned))?
    })
}

/// Linker flags that make programs know their release of Kubernetes, as a client complains about skew otherwise.
pub(super) fn link_flags(kubernetes: &str) -> String {
    let [major, minor] = minor_of(kubernetes).unwrap_or_default();
    let set = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    [
        "-s -w".to_owned(),
        set("gitVersion", kubernetes),
        set("gitMajor", major),
        set("gitMinor", minor),
    ]
    .join(" ")
}

/// The version in `Kubernetes v1.36.3` or in `etcd Version: 3.6.8` and what follows.
fn spoken(text: &str) -> Option<&str> {
    text.lines().next()?.split_whitespace().last()
}

/// Major and minor number of `v1.36.3` or `3.6.8`.
fn minor_of(version: &str) -> Option<[&str; 2]> {
    let mut numbers = version.strip_prefix('v').unwrap_or(version).split('.');
    let minor = [numbers.next()?, numbers.next()?];
    minor
        .iter()
        .all(|number| number.parse::<u32>().is_ok())
        .then_some(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_of_this_workspace_pins_both() {
        let release = Release::pinned().expect("go.mod");
        assert!(minor_of(&release.kubernetes).is_some(), "{release:?}");
        assert!(minor_of(&release.etcd).is_some(), "{release:?}");
    }

    #[test]
    fn single_and_grouped_requirements_are_found() {
        let go_mod =
            "module x\nrequire k8s.io/kubernetes v1.36.3\nrequire (\n\tgo.etcd.io/etcd/server/v3 v3.6.8\n)\n";
        let release = Release::parse(go_mod).expect("both");
        assert_eq!(
            (release.kubernetes.as_str(), release.etcd.as_str()),
            ("v1.36.3", "v3.6.8")
        );
        assert_eq!(
            Release::parse("module x\nrequire k8s.io/kubernetes v1.36.3\n"),
            None
        );
    }

    #[test]
    fn flags_carry_the_release() {
        let flags = link_flags("v1.36.3");
        assert!(flags.contains("version.gitVersion=v1.36.3"), "{flags}");
        assert!(
            flags.contains("version.gitMajor=1") && flags.contains("version.gitMinor=36"),
            "{flags}"
        );
    }

    #[test]
    fn only_the_minor_release_counts() {
        assert_eq!(
            minor_of(spoken("Kubernetes v1.36.9\n").expect("version")),
            Some(["1", "36"])
        );
        assert_eq!(
            minor_of(spoken("etcd Version: 3.6.8\nGit SHA: x\n").expect("version")),
            Some(["3", "6"])
        );
        assert_eq!(minor_of("unknown"), None);
        assert_eq!(spoken(""), None);
    }
}
