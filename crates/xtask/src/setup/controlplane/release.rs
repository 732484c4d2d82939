//! The releases of Kubernetes and etcd that the Go module pins. `Release` also checks that a program on `PATH` has the pinned
//! minor version.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::Component;
use crate::workspace;

/// Go module path of Kubernetes.
pub(super) const KUBERNETES: &str = "k8s.io/kubernetes";
const ETCD: &str = "go.etcd.io/etcd/server/v3";

/// The pinned releases, each like `v1.36.3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    kubernetes: String,
    etcd: String,
}

impl Release {
    /// Reads both releases from `go.mod`.
    ///
    /// # Errors
    /// If it cannot be read, or one of them is missing.
    pub(super) fn pinned() -> Result<Self> {
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

    /// Release of Kubernetes, such as `v1.36.3`.
    pub(super) fn kubernetes(&self) -> &str {
        &self.kubernetes
    }

    /// True if `--version` of the program prints the pinned minor version: older releases of etcd and the API server lack
    /// features that tests use.
    pub(super) fn is_version_of(&self, component: Component, program: &Path) -> bool {
        let wanted = if component == Component::Etcd {
            &self.etcd
        } else {
            &self.kubernetes
        };
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            printed_version(&text).is_some_and(|version| minor_of(version) == minor_of(wanted))
        })
    }
}

/// Version of a module that `go.mod` requires.
pub(in crate::setup) fn required(go_mod: &str, module: &str) -> Option<String> {
    go_mod.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|&word| word == "require");
        (words.next()? == module).then(|| words.next().map(str::to_owned))?
    })
}

/// Linker flags that set the release of Kubernetes in programs. Without it, clients warn about version skew.
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

/// Parses the version of `Kubernetes v1.36.3`, or of the first line `etcd Version: 3.6.8`.
fn printed_version(text: &str) -> Option<&str> {
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
    fn go_module_pins_kubernetes_and_etcd() {
        let release = Release::pinned().expect("go.mod");
        assert!(minor_of(&release.kubernetes).is_some(), "{release:?}");
        assert!(minor_of(&release.etcd).is_some(), "{release:?}");
    }

    #[test]
    fn single_and_grouped_requirements_are_parsed() {
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
    fn linker_flags_contain_the_release() {
        let flags = link_flags("v1.36.3");
        assert!(flags.contains("version.gitVersion=v1.36.3"), "{flags}");
        assert!(
            flags.contains("version.gitMajor=1") && flags.contains("version.gitMinor=36"),
            "{flags}"
        );
    }

    #[test]
    fn only_the_minor_version_is_compared() {
        assert_eq!(
            minor_of(printed_version("Kubernetes v1.36.9\n").expect("version")),
            Some(["1", "36"])
        );
        assert_eq!(
            minor_of(printed_version("etcd Version: 3.6.8\nGit SHA: x\n").expect("version")),
            Some(["3", "6"])
        );
        assert_eq!(minor_of("unknown"), None);
        assert_eq!(printed_version(""), None);
    }
}
