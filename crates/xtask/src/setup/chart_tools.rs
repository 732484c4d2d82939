//! Finds or builds the programs that check the chart: both releases of Helm, and kubeconform.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::{
    controlplane::{is_newer, pins, required},
    golang::Go,
    step,
};
use crate::{terminal::print, workspace};

/// A program, built from a Go module of its own, which pins every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartTool {
    /// Helm 3, which merges three versions of an object.
    Helm3,
    /// Helm 4, which applies objects on the server.
    Helm4,
    /// Compares objects with schemas.
    Kubeconform,
}

/// Go module whose minor version is that of Kubernetes.
const CLIENT: &str = "k8s.io/client-go";

impl ChartTool {
    pub const ALL: [Self; 3] = [Self::Helm3, Self::Helm4, Self::Kubeconform];

    /// Name of the program and of the folder with its module.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Helm3 => "helm3",
            Self::Helm4 => "helm4",
            Self::Kubeconform => "kubeconform",
        }
    }

    const fn package(self) -> &'static str {
        match self {
            Self::Helm3 => "helm.sh/helm/v3/cmd/helm",
            Self::Helm4 => "helm.sh/helm/v4/cmd/helm",
            Self::Kubeconform => "github.com/yannh/kubeconform/cmd/kubeconform",
        }
    }

    /// Linker flags with the release of Kubernetes that `helm template` renders for. Helm 4 derives it itself.
    fn link_flags(self, go_mod: &str) -> Option<String> {
        if self != Self::Helm3 {
            return Some("-s -w".to_owned());
        }
        let client = required(go_mod, CLIENT)?;
        let minor = client.split('.').nth(1)?;
        let set = |package: &str| {
            let package = format!("helm.sh/helm/v3/pkg/{package}");
            format!("-X {package}.k8sVersionMajor=1 -X {package}.k8sVersionMinor={minor}")
        };
        Some(["-s -w", &set("chartutil"), &set("lint/rules")].join(" "))
    }

    fn module(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("chart-tools")
            .join(self.name())
    }

    /// Path of the program; it exists after [`Self::ensure`].
    pub fn path(self) -> PathBuf {
        folder().join(self.name())
    }

    fn is_current(self) -> Result<bool> {
        is_newer(&self.path(), &pins(&self.module()))
    }

    /// Builds it unless it is built.
    ///
    /// # Errors
    /// If Go cannot be installed or the build fails; the message has the end of its log.
    pub fn ensure(self) -> Result<PathBuf> {
        let path = self.path();
        fs::create_dir_all(folder()).with_context(|| format!("make {}", folder().display()))?;
        let lock = File::create(folder().join(".lock")).context("create the lock file of the build")?;
        lock.lock().context("wait for another build")?;
        if !self.is_current()? {
            self.build(&path)?;
        }
        Ok(path)
    }

    fn build(self, path: &Path) -> Result<()> {
        let go = Go::ensure()?;
        print(format!(
            "Building {} from Go modules with {}, because the chart's tests run it (once; about 2 min).",
            self.name(),
            go.describe(),
        ));
        let go_mod = fs::read_to_string(self.module().join("go.mod")).context("read go.mod")?;
        let flags = self
            .link_flags(&go_mod)
            .with_context(|| format!("{} does not require {CLIENT}", self.name()))?;
        let fresh = path.with_extension("new");
        let mut command = go.command();
        command
            .current_dir(self.module())
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "-mod=readonly -buildvcs=false")
            .args(["build", "-v", "-trimpath", "-ldflags", &flags, "-o"])
            .arg(&fresh)
            .arg(self.package());
        step::run(self.name(), &mut command)?;
        fs::rename(&fresh, path).with_context(|| format!("move the program to {}", path.display()))
    }
}

fn folder() -> PathBuf {
    workspace::target().join("chart-tools")
}

/// Folder of the programs, if all of them are built.
pub(super) fn find() -> Result<Option<String>> {
    for tool in ChartTool::ALL {
        if !tool.is_current()? {
            return Ok(None);
        }
    }
    Ok(Some(folder().display().to_string()))
}

/// Builds all programs.
pub(super) fn ensure() -> Result<()> {
    ChartTool::ALL
        .into_iter()
        .try_for_each(|tool| tool.ensure().map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_pins_its_program() {
        for tool in ChartTool::ALL {
            let go_mod = fs::read_to_string(tool.module().join("go.mod")).expect("go.mod");
            assert!(go_mod.contains(&format!("tool {}", tool.package())), "{go_mod}");
            assert!(tool.module().join("go.sum").is_file());
        }
        let go_mod = fs::read_to_string(ChartTool::Helm3.module().join("go.mod")).expect("go.mod");
        let flags = ChartTool::Helm3.link_flags(&go_mod).expect("flags");
        assert!(flags.contains("chartutil.k8sVersionMinor=3"), "{flags}");
    }
}
