//! Finds the programs of the control plane in `KUBEBUILDER_ASSETS` or on `PATH`, or builds them once from Go modules.

pub mod older;
mod release;

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, Result, bail};

pub(super) use self::release::required;
use self::release::{Release, link_flags};
use super::{golang::Go, step};
use crate::{terminal::print, workspace};

/// Environment variable with a folder of prebuilt programs, as envtest's tools install them.
pub(crate) const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A program of the control plane, or one of the workspace's own Go programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    Etcd,
    ApiServer,
    Scheduler,
    ControllerManager,
    Kubectl,
    /// Runs a node with real kubelet code and a fake container runtime. Built from this workspace's Go sources in
    /// any case.
    Hollow,
    /// Estimates the cost of CEL expressions in policies with the API server's code. Built from this workspace's Go sources.
    CelCost,
    /// Applies strategic merge patches to Pods with Kubernetes' code. Built from this workspace's Go
    /// sources.
    PodMerge,
    /// Posts admission reviews at a steady rate, as API servers do. Built from this workspace's Go sources.
    CallLoad,
    /// Runs containers on a real node.
    Kubelet,
    /// Serves the addresses of Services on a real node.
    KubeProxy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the folder in `KUBEBUILDER_ASSETS`, whose version is not checked.
    Assets,
    /// On `PATH`, with the pinned minor version.
    Path,
    /// Built from the Go module.
    Built,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPlaneProgram {
    pub path: PathBuf,
    pub origin: Origin,
}

pub type Programs = BTreeMap<Component, ControlPlaneProgram>;

impl Component {
    /// The processes of a running control plane.
    pub const RUNNING: [Self; 4] = [
        Self::Etcd,
        Self::ApiServer,
        Self::Scheduler,
        Self::ControllerManager,
    ];
    /// The processes of a control plane, and kubectl.
    pub const CONTROL_PLANE: [Self; 5] = [
        Self::Etcd,
        Self::ApiServer,
        Self::Scheduler,
        Self::ControllerManager,
        Self::Kubectl,
    ];

    /// The processes of a real node, in addition to the container runtime.
    pub const NODE: [Self; 2] = [Self::Kubelet, Self::KubeProxy];

    /// Name of its program and of its log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::Scheduler => "kube-scheduler",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Hollow => "hollow",
            Self::CelCost => "celcost",
            Self::PodMerge => "podmerge",
            Self::CallLoad => "callload",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
        }
    }

    /// Source folder in the Go module, for the workspace's own programs.
    const fn own_sources(self) -> Option<&'static str> {
        match self {
            Self::Hollow => Some("hollow"),
            Self::CelCost => Some("celcost"),
            Self::PodMerge => Some("podmerge"),
            Self::CallLoad => Some("callload"),
            Self::Etcd
            | Self::ApiServer
            | Self::Scheduler
            | Self::ControllerManager
            | Self::Kubectl
            | Self::Kubelet
            | Self::KubeProxy => None,
        }
    }

    const fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::Scheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Hollow => "./hollow",
            Self::CelCost => "./celcost",
            Self::PodMerge => "./podmerge",
            Self::CallLoad => "./callload",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::KubeProxy => "k8s.io/kubernetes/cmd/kube-proxy",
        }
    }

    /// File name that `go build` chooses if `-o` is a folder.
    const fn built_as(self) -> &'static str {
        match self {
            Self::Etcd => "server",
            Self::ApiServer
            | Self::Scheduler
            | Self::ControllerManager
            | Self::Kubectl
            | Self::Hollow
            | Self::CelCost
            | Self::PodMerge
            | Self::CallLoad
            | Self::Kubelet
            | Self::KubeProxy => self.name(),
        }
    }

    /// CPU time of a first build, in seconds, after the components above it in this list have been built.
    const fn first_build_s(self) -> u64 {
        match self {
            Self::ApiServer => 520,
            Self::Scheduler => 40,
            Self::ControllerManager => 150,
            Self::Kubectl => 90,
            Self::Etcd => 120,
            Self::Hollow => 100,
            Self::CelCost => 20,
            Self::PodMerge => 10,
            Self::CallLoad => 5,
            Self::Kubelet => 60,
            Self::KubeProxy => 25,
        }
    }
}

/// Approximate CPU time of a first build of the components, in seconds.
pub fn costs_s(components: &[Component]) -> u64 {
    components.iter().map(|component| component.first_build_s()).sum()
}

/// Finds a program without building it.
///
/// # Errors
/// If the Go module cannot be read.
pub fn find(component: Component) -> Result<Option<ControlPlaneProgram>> {
    let release = Release::pinned()?;
    if component.own_sources().is_none() {
        if let Some(folder) = env::var_os(ASSETS) {
            let path = Path::new(&folder).join(component.name());
            if path.is_file() {
                return Ok(Some(ControlPlaneProgram {
                    path,
                    origin: Origin::Assets,
                }));
            }
        }
        if let Some(path) =
            workspace::on_path(component.name()).filter(|path| release.is_version_of(component, path))
        {
            return Ok(Some(ControlPlaneProgram {
                path,
                origin: Origin::Path,
            }));
        }
    }
    let path = cache(&release).join(component.name());
    Ok(is_current(component, &path)?.then_some(ControlPlaneProgram {
        path,
        origin: Origin::Built,
    }))
}

/// Path of kubectl for printed commands, or its bare name if it was not found.
pub fn kubectl() -> PathBuf {
    let found = find(Component::Kubectl).ok().flatten();
    found.map_or_else(|| Component::Kubectl.name().into(), |program| program.path)
}

/// The components that [`ensure`] has to build.
///
/// # Errors
/// If the Go module cannot be read.
pub fn missing(components: &[Component]) -> Result<Vec<Component>> {
    let mut missing = Vec::new();
    for &component in components {
        if find(component)?.is_none() {
            missing.push(component);
        }
    }
    Ok(missing)
}

/// Finds the programs and builds missing ones. A lock file lets only one process build at a time.
///
/// # Errors
/// If Go cannot be installed or a build fails; the message has the end of its log.
pub fn ensure(components: &[Component]) -> Result<Programs> {
    if !missing(components)?.is_empty() {
        let folder = cache(&Release::pinned()?);
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let lock = File::create(folder.join(".lock")).context("create the lock file of the build")?;
        lock.lock()
            .context("wait for another build of the control plane")?;
        // Another process may have built them meanwhile.
        let missing = missing(components)?;
        if !missing.is_empty() {
            build(&missing)?;
        }
    }
    let found = components.iter().map(|&component| {
        let program = find(component)?.with_context(|| format!("{} no longer exists", component.name()))?;
        Ok((component, program))
    });
    found.collect()
}

fn build(components: &[Component]) -> Result<()> {
    let release = Release::pinned()?;
    let go = Go::ensure()?;
    let names = components.iter().map(|component| component.name());
    print(format!(
        "Building {} from Go modules with {}, because tests and the demo run a real control plane (once; up to 5 GB in \
         Go's caches).",
        names.collect::<Vec<_>>().join(", "),
        go.describe(),
    ));
    compile(&go, &workspace::controlplane(), release.kubernetes(), components)
}

/// Compiles components of a Go module, and moves each into its folder when it is complete.
fn compile(go: &Go, module: &Path, kubernetes: &str, components: &[Component]) -> Result<()> {
    let folder = cache_of(kubernetes);
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let fresh = tempfile::tempdir_in(&folder).context("make a folder for the build")?;
    let mut command = go.command();
    command
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        // go.mod and go.sum pin every version. buildvcs would run git.
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .args(["build", "-v", "-trimpath", "-ldflags", &link_flags(kubernetes)])
        // The trailing slash marks a folder; without it, a single program would become a file of that name.
        .arg("-o")
        .arg(fresh.path().join(""))
        .args(components.iter().map(|component| component.package()));
    step::run("control plane", &mut command)?;
    for component in components {
        let path = folder.join(component.name());
        fs::rename(fresh.path().join(component.built_as()), &path)
            .with_context(|| format!("move the program to {}", path.display()))?;
    }
    Ok(())
}

fn cache(release: &Release) -> PathBuf {
    cache_of(release.kubernetes())
}

/// Folder of programs built from a release of Kubernetes.
fn cache_of(kubernetes: &str) -> PathBuf {
    workspace::target()
        .join("controlplane")
        .join(kubernetes)
        .join("bin")
}

/// True if the program exists and is newer than the Go module files and its own sources.
fn is_current(component: Component, path: &Path) -> Result<bool> {
    let module = workspace::controlplane();
    let mut sources = pins(&module).to_vec();
    if let Some(folder) = component.own_sources() {
        for entry in fs::read_dir(module.join(folder)).with_context(|| format!("read {folder}"))? {
            sources.push(entry?.path());
        }
    }
    is_newer(path, &sources)
}

/// The files of a Go module that pin every version.
pub(super) fn pins(module: &Path) -> [PathBuf; 2] {
    ["go.mod", "go.sum"].map(|name| module.join(name))
}

/// True if the program exists and is newer than its sources.
pub(super) fn is_newer(path: &Path, sources: &[PathBuf]) -> Result<bool> {
    let Ok(built) = modified(path) else {
        return Ok(false);
    };
    for source in sources {
        if modified(source)? > built {
            return Ok(false);
        }
    }
    Ok(true)
}

fn modified(path: &Path) -> Result<SystemTime> {
    let metadata = fs::metadata(path).with_context(|| format!("read metadata of {}", path.display()))?;
    if !metadata.is_file() {
        bail!("{} is not a file", path.display());
    }
    metadata.modified().context("read a modification time")
}
