//! Finds the programs of the control plane in `KUBEBUILDER_ASSETS` or on `PATH`, or builds them once from Go modules.

pub mod older;
pub mod release;

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, Result, bail};

use self::release::{Release, link_flags};
use crate::{
    setup::{golang::Go, step},
    terminal::print,
    workspace,
};

/// The folder of ready-made programs, as envtest's tools lay it out.
pub(crate) const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// One program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The scheduler.
    Scheduler,
    /// The controllers behind Deployments, service accounts, node conditions and garbage.
    ControllerManager,
    /// The command line that people use; it renders and applies our manifests as they would.
    Kubectl,
    /// A node kept by real kubelet code over a fake runtime; our own program, so it is always built.
    Hollow,
    /// Tells what the expressions of policies cost, by the API server's code; our own program, too.
    CelCost,
    /// Applies strategic merge patches to Pods, by Kubernetes' code; our own program, too.
    PodMerge,
}

/// Where a program was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the folder that `KUBEBUILDER_ASSETS` names; taken as it is.
    Assets,
    /// On `PATH`, in the release we build ourselves.
    Path,
    /// Built by us.
    Built,
}

/// A program ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPlaneProgram {
    /// The file.
    pub path: PathBuf,
    /// Where it was found.
    pub origin: Origin,
}

/// Programs by component.
pub type Programs = BTreeMap<Component, ControlPlaneProgram>;

impl Component {
    /// What runs in a cluster.
    pub const RUNNING: [Self; 4] = [
        Self::Etcd,
        Self::ApiServer,
        Self::Scheduler,
        Self::ControllerManager,
    ];
    /// All but what keeps a node.
    pub const CONTROL_PLANE: [Self; 5] = [
        Self::Etcd,
        Self::ApiServer,
        Self::Scheduler,
        Self::ControllerManager,
        Self::Kubectl,
    ];

    /// The name of its program, and of its log.
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
        }
    }

    /// The folder of its sources in our module, if it is our own.
    const fn own_sources(self) -> Option<&'static str> {
        match self {
            Self::Hollow => Some("hollow"),
            Self::CelCost => Some("celcost"),
            Self::PodMerge => Some("podmerge"),
            Self::Etcd | Self::ApiServer | Self::Scheduler | Self::ControllerManager | Self::Kubectl => None,
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
        }
    }

    /// What `go build` calls its program where it is told nothing but a folder.
    const fn built_as(self) -> &'static str {
        match self {
            Self::Etcd => "server",
            Self::ApiServer
            | Self::Scheduler
            | Self::ControllerManager
            | Self::Kubectl
            | Self::Hollow
            | Self::CelCost
            | Self::PodMerge => self.name(),
        }
    }

    /// Seconds of CPU time that a first build takes when the ones before it here are built.
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
        }
    }
}

/// Seconds of CPU time that a first build of the components takes, about.
pub fn costs_s(components: &[Component]) -> u64 {
    components.iter().map(|component| component.first_build_s()).sum()
}

/// Looks for a program without building it.
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
            workspace::on_path(component.name()).filter(|path| release.is_spoken_by(component, path))
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

/// How a person calls kubectl here: by its path where there is one, else by its name.
pub fn kubectl() -> PathBuf {
    let found = find(Component::Kubectl).ok().flatten();
    found.map_or_else(|| Component::Kubectl.name().into(), |program| program.path)
}

/// The components that [`ensure`] would build.
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

/// Finds the programs and builds those that are not there, one process at a time.
///
/// # Errors
/// If Go cannot be had or a build fails; the message holds the end of its log.
pub fn ensure(components: &[Component]) -> Result<Programs> {
    if !missing(components)?.is_empty() {
        let folder = cache(&Release::pinned()?);
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let lock = File::create(folder.join(".lock")).context("make the lock of the build")?;
        lock.lock()
            .context("wait for another build of the control plane")?;
        // Another process may have built them meanwhile.
        let missing = missing(components)?;
        if !missing.is_empty() {
            build(&missing)?;
        }
    }
    let found = components.iter().map(|&component| {
        let program = find(component)?.with_context(|| format!("{} is gone again", component.name()))?;
        Ok((component, program))
    });
    found.collect()
}

fn build(components: &[Component]) -> Result<()> {
    let release = Release::pinned()?;
    let go = Go::ensure()?;
    let names = components.iter().map(|component| component.name());
    print(format!(
        "Building {} from Go modules with {}, as tests and the demo run a real control plane (once; up to 5 GB of Go's \
         caches).",
        names.collect::<Vec<_>>().join(", "),
        go.describe(),
    ));
    compile(&go, &workspace::controlplane(), release.kubernetes(), components)
}

/// Compiles components in a Go module, and puts each in its place when it is whole.
fn compile(go: &Go, module: &Path, kubernetes: &str, components: &[Component]) -> Result<()> {
    let folder = cache_of(kubernetes);
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let fresh = tempfile::tempdir_in(&folder).context("make a folder for what is built")?;
    let mut command = go.command();
    command
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        // go.mod and go.sum decide every version; nothing asks a version control system.
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .args(["build", "-v", "-trimpath", "-ldflags", &link_flags(kubernetes)])
        // The slash says that it is a folder: one program would else be a file of that name.
        .arg("-o")
        .arg(fresh.path().join(""))
        .args(components.iter().map(|component| component.package()));
    step::run("control plane", &mut command)?;
    for component in components {
        let path = folder.join(component.name());
        fs::rename(fresh.path().join(component.built_as()), &path)
            .with_context(|| format!("put {} in place", path.display()))?;
    }
    Ok(())
}

fn cache(release: &Release) -> PathBuf {
    cache_of(release.kubernetes())
}

/// Where what was built of a release of Kubernetes is kept.
fn cache_of(kubernetes: &str) -> PathBuf {
    workspace::target()
        .join("controlplane")
        .join(kubernetes)
        .join("bin")
}

/// True if the program is there and newer than everything it is made of.
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

/// The files of a Go module that decide every version.
fn pins(module: &Path) -> [PathBuf; 2] {
    ["go.mod", "go.sum"].map(|name| module.join(name))
}

/// True if the program is there and newer than its sources.
fn is_newer(path: &Path, sources: &[PathBuf]) -> Result<bool> {
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
    let metadata = fs::metadata(path).with_context(|| format!("look at {}", path.display()))?;
    if !metadata.is_file() {
        bail!("{} is not a file", path.display());
    }
    metadata.modified().context("read a time of change")
}
