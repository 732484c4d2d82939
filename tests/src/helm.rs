//! [`Helm`]: a release of Helm that runs on the chart of this workspace.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;
use xtask::{setup::chart_tools::ChartTool, workspace};

use crate::rendered_manifests::objects;

/// Flag with these profiles, and the one of the base, which changes nothing.
pub fn profiles_flag(profiles: &[&str]) -> String {
    format!("--set=profiles={{{}}}", [&["nodes"], profiles].concat().join(","))
}

/// Name of the release.
pub const RELEASE: &str = "headroom";

pub struct Helm {
    pub tool: ChartTool,
    program: PathBuf,
    /// Its caches and settings.
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    pub fn new(tool: ChartTool) -> Self {
        Self {
            tool,
            program: tool.ensure().expect("Helm"),
            home: tempfile::tempdir().expect("a folder"),
            kubeconfig: None,
        }
    }

    /// Both releases, without a cluster.
    pub fn both() -> [Self; 2] {
        [ChartTool::Helm3, ChartTool::Helm4].map(Self::new)
    }

    #[must_use]
    pub fn on(self, kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: Some(kubeconfig.to_owned()),
            ..self
        }
    }

    pub fn chart() -> PathBuf {
        workspace::root().join("deploy/chart/headroom")
    }

    /// A command of Helm with these words.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        for (variable, folder) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
        ] {
            command.env(variable, self.home.path().join(folder));
        }
        command.env_remove("KUBECONFIG").args(words);
        if let Some(kubeconfig) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("start Helm")
    }

    /// Runs `install`, `upgrade` or another command on the chart in the webhook's namespace.
    pub fn run_on_chart(&self, command: &[&str], words: &[&str]) -> Output {
        let chart = Self::chart().display().to_string();
        let all = [command, &[RELEASE, &chart, "--namespace=headroom-system"], words].concat();
        self.run(&all)
    }

    /// Renders the chart in the namespace `default`, so that both namespaces are part of it.
    ///
    /// # Errors
    /// Helm's message.
    pub fn template(&self, profiles: &[&str], words: &[&str]) -> Result<Vec<Value>, String> {
        let chart = Self::chart().display().to_string();
        let set = profiles_flag(profiles);
        let rendered = self.run(&[&["template", RELEASE, &chart, &set], words].concat());
        if rendered.status.success() {
            Ok(objects(&rendered.stdout))
        } else {
            Err(String::from_utf8_lossy(&rendered.stderr).into_owned())
        }
    }
}
