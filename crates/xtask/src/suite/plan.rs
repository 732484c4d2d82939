//! Which tests there are, by kind: read from cargo, never from a list kept by hand.

use anyhow::{Context as _, Result};
use cargo_metadata::{MetadataCommand, Package, TargetKind};

use super::Kind;
use crate::workspace;

/// The package of end-to-end tests.
const E2E: &str = "e2e";

/// Test targets with their kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    targets: Vec<(Kind, String)>,
}

impl Plan {
    /// Asks cargo.
    pub(super) fn read() -> Result<Self> {
        let mut command = MetadataCommand::new();
        let metadata = command
            .current_dir(workspace::root())
            .no_deps()
            .exec()
            .context("ask cargo for the packages")?;
        Ok(Self {
            targets: metadata.packages.iter().flat_map(test_targets).collect(),
        })
    }

    /// The arguments after `cargo test` for each run of the kind.
    pub(super) fn runs(&self, kind: Kind) -> Vec<Vec<&str>> {
        let mut run: Vec<&str> = if kind == Kind::Unit {
            vec!["--lib", "--bins"]
        } else {
            vec![]
        };
        for (_, name) in self.targets.iter().filter(|(of, _)| *of == kind) {
            run.extend(["--test", name]);
        }
        let documentation = (kind == Kind::Unit).then(|| vec!["--doc"]);
        [run]
            .into_iter()
            .filter(|run| !run.is_empty())
            .chain(documentation)
            .collect()
    }
}

fn test_targets(package: &Package) -> impl Iterator<Item = (Kind, String)> {
    let is_e2e = package.name.as_str() == E2E;
    package
        .targets
        .iter()
        .filter(|target| target.kind.contains(&TargetKind::Test))
        .map(move |target| {
            let kind = if is_e2e { kind_of(&target.name) } else { Kind::Unit };
            (kind, target.name.clone())
        })
}

fn kind_of(target: &str) -> Kind {
    let word = target.split('_').next().unwrap_or_default();
    [Kind::Process, Kind::Kernel, Kind::Apiserver]
        .into_iter()
        .find(|kind| kind.word() == word)
        .unwrap_or(Kind::Unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_a_file_is_its_kind() {
        assert_eq!(kind_of("kernel_busy_time"), Kind::Kernel);
        assert_eq!(kind_of("apiserver"), Kind::Apiserver);
        assert_eq!(kind_of("process_drain"), Kind::Process);
        assert_eq!(kind_of("processes"), Kind::Unit);
        assert_eq!(kind_of("layout"), Kind::Unit);
    }

    #[test]
    fn every_target_runs_once_and_nothing_runs_for_an_empty_kind() {
        let targets = vec![
            (Kind::Kernel, "kernel_a".to_owned()),
            (Kind::Unit, "layout".to_owned()),
        ];
        let plan = Plan { targets };
        assert_eq!(plan.runs(Kind::Kernel), [["--test", "kernel_a"]]);
        assert_eq!(
            plan.runs(Kind::Unit),
            [["--lib", "--bins", "--test", "layout"].as_slice(), &["--doc"]]
        );
        assert!(plan.runs(Kind::Process).is_empty());
    }

    #[test]
    fn this_workspace_has_end_to_end_tests() {
        let plan = Plan::read().expect("metadata");
        assert!(!plan.runs(Kind::Apiserver).is_empty());
    }
}
