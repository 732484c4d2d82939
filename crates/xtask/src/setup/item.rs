//! [`Item`]: a tool that set-up can find or install, its purpose, and the consequence if it is missing.

use std::time::Duration;

use anyhow::Result;

use super::{
    bpf_linker, buildah,
    cargo_tool::{DENY, FUZZ, MUTANTS},
    chart_tools, container_runtime,
    controlplane::{self, Component},
    curl,
    debian::{self, Package},
    emulator, musl, prometheus,
    toolchain::Toolchain,
};
use crate::workspace;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Rust toolchain for the kernel programs.
    Nightly,
    BpfLinker,
    /// Programs of the control plane. Essential.
    Controlplane(Vec<Component>),
    /// The program that runs nodes with real kubelet code. Essential.
    Kubelet,
    /// The kubelet and kube-proxy of a real node.
    RealNode,
    /// Runs the pods of a real node.
    ContainerRuntime,
    /// QEMU, for tests on other kernels.
    Emulator,
    Prometheus,
    Curl,
    /// Builds container images: buildah, and busybox for images of test pods.
    Images,
    /// Builds static programs for images.
    Musl,
    /// Helm 3, Helm 4 and kubeconform.
    ChartTools,
    CargoDeny,
    CargoMutants,
    /// cargo-fuzz, and the C++ compiler for its library.
    CargoFuzz,
}

/// libFuzzer is written in C++.
const CXX: Package = Package {
    name: "g++",
    why: "compiles libFuzzer",
};

/// Items of one lane are installed one after another; lanes run in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Items that the build of the workspace needs.
    Rust,
    /// Items built from Go modules.
    Go,
    Other,
}

impl Item {
    /// Items of the demo, in installation order.
    pub fn of_demo() -> Vec<Self> {
        vec![
            Self::Nightly,
            Self::BpfLinker,
            Self::Controlplane(Component::RUNNING.to_vec()),
            Self::Kubelet,
            Self::Curl,
        ]
    }

    /// Items of the demo and of the tests on this kernel, in installation order.
    pub fn all() -> Vec<Self> {
        vec![
            Self::Nightly,
            Self::BpfLinker,
            Self::Controlplane(Component::CONTROL_PLANE.to_vec()),
            Self::Kubelet,
            Self::Prometheus,
            Self::Curl,
            Self::Images,
            Self::RealNode,
            Self::ContainerRuntime,
        ]
    }

    /// Items of a real node, in addition to a control plane.
    pub fn of_real_node() -> Vec<Self> {
        vec![Self::RealNode, Self::ContainerRuntime, Self::Images]
    }

    pub const fn name(&self) -> &'static str {
        match self {
            Self::Nightly => "nightly Rust with rust-src",
            Self::BpfLinker => "bpf-linker",
            Self::Controlplane(_) => "control plane",
            Self::Kubelet => "kubelet code",
            Self::RealNode => "kubelet and kube-proxy",
            Self::ContainerRuntime => "container runtime",
            Self::Emulator => "emulated machine",
            Self::Prometheus => "Prometheus",
            Self::Curl => "curl",
            Self::Images => "buildah",
            Self::Musl => "musl",
            Self::ChartTools => "Helm and kubeconform",
            Self::CargoDeny => DENY.name,
            Self::CargoMutants => MUTANTS.name,
            Self::CargoFuzz => FUZZ.name,
        }
    }

    pub const fn why(&self) -> &'static str {
        match self {
            Self::Nightly => "compiles the kernel programs: the BPF target has no prebuilt core library",
            Self::BpfLinker => "links the kernel programs",
            Self::Controlplane(_) => "tests and the demo run a real etcd and Kubernetes",
            Self::Kubelet => "runs nodes of tests and the demo with real kubelet code",
            Self::RealNode => "run pods on a real node in tests",
            Self::ContainerRuntime => "containerd and runc run the pods of a real node in tests",
            Self::Emulator => "runs the kernel tests on other kernels",
            Self::Prometheus => "tests of `kubectl headroom advise` query a real server",
            Self::Curl => curl::PACKAGE.why,
            Self::Images => "builds container images",
            Self::Musl => "builds static programs for images",
            Self::ChartTools => "render, install and check the chart in tests",
            Self::CargoDeny => "checks licences, bans and sources of dependencies",
            Self::CargoMutants => "changes code in small ways and checks that a test fails",
            Self::CargoFuzz => "searches for inputs that break a fuzz target",
        }
    }

    /// Consequence if it is missing, in messages.
    pub const fn loss(&self) -> &'static str {
        match self {
            Self::Nightly | Self::BpfLinker => {
                "the agent is built without its kernel programs and reads procfs only"
            }
            Self::Controlplane(_) | Self::Kubelet => "no demo, and no tests against an API server",
            Self::RealNode | Self::ContainerRuntime => "no real node, and no tests of Headroom as pods",
            Self::Emulator => "no tests on other kernels",
            Self::Prometheus => "the test of `kubectl headroom advise` fails",
            Self::Curl => "one command that the demo prints does not work, and its test fails",
            Self::Images | Self::Musl => "no images, and no tests of images",
            Self::ChartTools => "no tests of the chart",
            Self::CargoDeny => "dependencies are not checked",
            Self::CargoMutants => "no mutation testing",
            Self::CargoFuzz => "no fuzzing; `cargo test` still replays the corpora",
        }
    }

    /// True if set-up fails without it.
    pub const fn is_essential(&self) -> bool {
        match self {
            Self::Nightly
            | Self::BpfLinker
            | Self::RealNode
            | Self::ContainerRuntime
            | Self::Emulator
            | Self::Prometheus
            | Self::Curl
            | Self::Images
            | Self::Musl
            | Self::ChartTools
            | Self::CargoDeny
            | Self::CargoMutants
            | Self::CargoFuzz => false,
            Self::Controlplane(_) | Self::Kubelet => true,
        }
    }

    /// Approximate CPU time of its installation, as measured in docs/journal.
    pub(super) fn costs(&self) -> Duration {
        Duration::from_secs(match self {
            Self::Nightly | Self::Curl => 5,
            Self::BpfLinker => 170,
            Self::Controlplane(components) => {
                controlplane::costs_s(&controlplane::missing(components).unwrap_or_default())
            }
            Self::Kubelet | Self::RealNode => controlplane::costs_s(&self.components()),
            Self::ContainerRuntime => 15,
            Self::Emulator => 60,
            Self::Prometheus | Self::Images | Self::Musl => 10,
            Self::ChartTools => 360,
            Self::CargoDeny | Self::CargoMutants | Self::CargoFuzz => 200,
        })
    }

    pub(super) const fn lane(&self) -> Lane {
        match self {
            Self::Nightly | Self::BpfLinker => Lane::Rust,
            Self::Controlplane(_) | Self::Kubelet | Self::RealNode => Lane::Go,
            Self::ContainerRuntime
            | Self::Emulator
            | Self::Prometheus
            | Self::Curl
            | Self::Images
            | Self::Musl
            | Self::ChartTools
            | Self::CargoDeny
            | Self::CargoMutants
            | Self::CargoFuzz => Lane::Other,
        }
    }

    /// Go programs of the item.
    pub(super) fn components(&self) -> Vec<Component> {
        match self {
            Self::Controlplane(components) => components.clone(),
            Self::Kubelet => vec![Component::Hollow],
            Self::RealNode => Component::NODE.to_vec(),
            Self::Nightly
            | Self::BpfLinker
            | Self::ContainerRuntime
            | Self::Emulator
            | Self::Prometheus
            | Self::Curl
            | Self::Images
            | Self::Musl
            | Self::ChartTools
            | Self::CargoDeny
            | Self::CargoMutants
            | Self::CargoFuzz => Vec::new(),
        }
    }

    /// Version or path of the installed item; `None` if it is missing.
    pub(super) fn find(&self) -> Result<Option<String>> {
        Ok(match self {
            Self::Nightly => Toolchain::find().map(|toolchain| toolchain.describe()),
            Self::BpfLinker => bpf_linker::find(),
            Self::Controlplane(_) | Self::Kubelet | Self::RealNode => folders_of(&self.components())?,
            Self::ContainerRuntime => container_runtime::find(),
            Self::Emulator => emulator::find(),
            Self::Prometheus => prometheus::find().map(|found| found.server.display().to_string()),
            Self::Curl => curl::find(),
            Self::Images => buildah::find(),
            Self::Musl => musl::find(),
            Self::ChartTools => chart_tools::find()?,
            Self::CargoDeny => DENY.find(),
            Self::CargoMutants => MUTANTS.find(),
            Self::CargoFuzz => workspace::on_path("c++").and_then(|_| FUZZ.find()),
        })
    }

    pub(super) fn install(&self) -> Result<()> {
        match self {
            Self::Nightly => Toolchain::ensure().map(drop),
            Self::BpfLinker => bpf_linker::ensure(),
            Self::Controlplane(_) | Self::Kubelet | Self::RealNode => {
                controlplane::ensure(&self.components()).map(drop)
            }
            Self::ContainerRuntime => container_runtime::ensure(),
            Self::Emulator => emulator::ensure(),
            Self::Prometheus => prometheus::ensure(),
            Self::Curl => curl::ensure(),
            Self::Images => buildah::ensure(),
            Self::Musl => musl::ensure(),
            Self::ChartTools => chart_tools::ensure(),
            Self::CargoDeny => DENY.ensure(),
            Self::CargoMutants => MUTANTS.ensure(),
            Self::CargoFuzz => {
                if workspace::on_path("c++").is_none() {
                    debian::ensure(&[CXX])?;
                }
                FUZZ.ensure()
            }
        }
    }
}

/// Folders of the programs, without duplicates; `None` if a program is missing.
fn folders_of(components: &[Component]) -> Result<Option<String>> {
    let mut folders = Vec::new();
    for &component in components {
        let Some(program) = controlplane::find(component)? else {
            return Ok(None);
        };
        folders.extend(program.path.parent().map(|folder| folder.display().to_string()));
    }
    folders.dedup();
    Ok(Some(folders.join(", ")))
}
