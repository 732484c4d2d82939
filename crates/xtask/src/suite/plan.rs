//! Builds the workspace and lists its test programs by kind. The list comes from cargo's build messages.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Kind;
use crate::{cpu_time, terminal::print, workspace};

/// Folder of the package with end-to-end tests.
const E2E: &str = "tests";

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) tests: Vec<TestProgram>,
    /// Paths of all other programs.
    pub(super) others: Vec<PathBuf>,
    /// CPU time of the build.
    pub(super) cpu: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestProgram {
    pub(super) kind: Kind,
    /// Name of the cargo target; for unit tests, of the crate.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Folder of the package. Like cargo, [`Self::command`] sets it and the package name for the tests.
    folder: PathBuf,
    package: String,
}

impl Plan {
    /// Builds all programs and tests with one cargo command, so that each crate is built once, with the features of tests.
    ///
    /// # Errors
    /// If something does not compile; cargo prints the reason.
    pub(super) fn build() -> Result<Self> {
        let arguments = ["build", "--workspace", "--lib", "--bins", "--tests"];
        print(format!("\n== cargo {}", arguments.join(" ")));
        let mut child = workspace::cargo()
            .args(arguments)
            .arg("--message-format=json-render-diagnostics")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start cargo")?;
        let output = child.stdout.take().context("read the output of cargo")?;
        let mut plan = Self::default();
        for line in BufReader::new(output).lines() {
            let line = line.context("read the output of cargo")?;
            let message = serde_json::from_str(&line).context("read a message of cargo")?;
            plan.add(&message);
        }
        let (status, took) = cpu_time::wait(&mut child).context("await cargo")?;
        ensure!(status.success(), "the tests could not be built ({status})");
        plan.cpu = took;
        Ok(plan)
    }

    pub(super) fn programs(&self, kind: Kind) -> impl Iterator<Item = &TestProgram> {
        self.tests.iter().filter(move |program| program.kind == kind)
    }

    fn add(&mut self, message: &Value) {
        let Some(path) = message.get("executable").and_then(Value::as_str) else {
            return;
        };
        let is_test = message.pointer("/profile/test") == Some(&Value::Bool(true));
        let text = |pointer: &str| {
            message
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if !is_test {
            self.others.push(path.into());
            return;
        }
        let folder = Path::new(text("/manifest_path"))
            .parent()
            .unwrap_or(Path::new("/"));
        let name = text("/target/name").to_owned();
        let is_file_of_tests = text("/target/kind/0") == "test" && folder.ends_with(E2E);
        self.tests.push(TestProgram {
            kind: if is_file_of_tests {
                kind_of(&name)
            } else {
                Kind::Unit
            },
            name,
            path: path.into(),
            folder: folder.to_owned(),
            package: package(text("/package_id")).to_owned(),
        });
    }
}

impl TestProgram {
    /// A command with the working directory and environment that cargo would set.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", &self.package);
        command
    }
}

fn kind_of(target: &str) -> Kind {
    let word = target.split('_').next().unwrap_or_default();
    [Kind::Process, Kind::Kernel, Kind::Apiserver, Kind::Node]
        .into_iter()
        .find(|kind| kind.word() == word)
        .unwrap_or(Kind::Unit)
}

/// Name of a package by its ID: `e2e` of `path+file:///w/tests#e2e@0.1.0`, and `agent` of `path+file:///w/agent#0.1.0`, which
/// has the name of its folder.
fn package(id: &str) -> &str {
    let (place, rest) = id.rsplit_once('#').unwrap_or((id, ""));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artifact(folder: &str, kind: &str, name: &str, is_test: bool) -> Value {
        json!({
            "reason": "compiler-artifact",
            "package_id": format!("path+file://{folder}#0.1.0"),
            "manifest_path": format!("{folder}/Cargo.toml"),
            "target": {"kind": [kind], "name": name},
            "profile": {"test": is_test},
            "executable": format!("/target/{name}"),
        })
    }

    #[test]
    fn first_word_of_the_file_name_is_the_kind() {
        assert_eq!(kind_of("kernel_busy_time"), Kind::Kernel);
        assert_eq!(kind_of("apiserver"), Kind::Apiserver);
        assert_eq!(kind_of("process_drain"), Kind::Process);
        assert_eq!(kind_of("processes"), Kind::Unit);
        assert_eq!(kind_of("layout"), Kind::Unit);
    }

    #[test]
    fn only_end_to_end_tests_have_a_kind_other_than_unit() {
        let mut plan = Plan::default();
        plan.add(&artifact("/w/tests", "test", "kernel", true));
        plan.add(&artifact("/w/agent", "test", "kernel", true));
        plan.add(&artifact("/w/tests", "lib", "kernel", true));
        plan.add(&artifact("/w/agent", "bin", "agent", false));
        plan.add(&json!({"reason": "compiler-artifact", "executable": null}));
        assert_eq!(plan.programs(Kind::Kernel).count(), 1);
        assert_eq!(plan.programs(Kind::Unit).count(), 2);
        assert_eq!(plan.others, [PathBuf::from("/target/agent")]);
    }

    #[test]
    fn package_name_is_in_the_id_or_is_the_folder_name() {
        assert_eq!(package("path+file:///w/tests#e2e@0.1.0"), "e2e");
        assert_eq!(package("path+file:///w/agent#0.1.0"), "agent");
    }
}
