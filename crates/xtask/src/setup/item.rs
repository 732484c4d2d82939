//! [`Item`]: what set-up can find or get, why that is needed, and what is not possible without it.

use std::time::Duration;

use anyhow::Result;

use super::{
    bpf_linker,
    cargo_tool::{DENY, FUZZ, MUTANTS},
    curl,
    debian::{self, Package},
    emulator, prometheus,
    toolchain::Toolchain,
};
use crate::{
    controlplane::{self, Component},
    workspace,
};

/// Something to be found or got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The toolchain for the kernel programs.
    Nightly,
    /// The linker for the kernel programs.
    BpfLinker,
    /// Programs of the control plane.
    Controlplane(Vec<Component>),
    /// The program that keeps nodes with kubelet code.
    Kubelet,
    /// What runs other kernels.
    Emulator,
    /// What remembers measurements.
    Prometheus,
    /// What asks for a page.
    Curl,
    /// What checks the dependency tree.
    CargoDeny,
    /// What finds rules that no test holds.
    CargoMutants,
    /// What finds inputs that break a target, and the compiler for its own library.
    CargoFuzz,
}

/// The fuzzer's library is in C++.
const CXX: Package = Package {
    name: "g++",
    why: "compiles the library of the fuzzer",
};

/// What is got one thing after another, beside other lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// What our own programs are built with.
    Rust,
    /// What is built from Go modules.
    Go,
    /// The rest.
    Other,
}

impl Item {
    /// Everything that the demo needs, in the order in which it is got.
    pub fn of_demo() -> Vec<Self> {
        vec![
            Self::Nightly,
            Self::BpfLinker,
            Self::Controlplane(Component::RUNNING.to_vec()),
            Self::Kubelet,
            Self::Curl,
        ]
    }

    /// Everything that the demo and the tests on this kernel need, in the order in which it is got.
    pub fn all() -> Vec<Self> {
        vec![
            Self::Nightly,
            Self::BpfLinker,
            Self::Controlplane(Component::CONTROL_PLANE.to_vec()),
            Self::Kubelet,
            Self::Prometheus,
            Self::Curl,
        ]
    }

    /// What it is called.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Nightly => "nightly Rust with rust-src",
            Self::BpfLinker => "bpf-linker",
            Self::Controlplane(_) => "control plane",
            Self::Kubelet => "kubelet code",
            Self::Emulator => "emulated machine",
            Self::Prometheus => "Prometheus",
            Self::Curl => "curl",
            Self::CargoDeny => DENY.name,
            Self::CargoMutants => MUTANTS.name,
            Self::CargoFuzz => FUZZ.name,
        }
    }

    /// Why it is needed.
    pub const fn why(&self) -> &'static str {
        match self {
            Self::Nightly => "compiles the kernel programs: the BPF target has no ready-made core library",
            Self::BpfLinker => "links the kernel programs",
            Self::Controlplane(_) => "tests and the demo run a real etcd and Kubernetes",
            Self::Kubelet => "keeps their nodes as a real node is kept",
            Self::Emulator => "runs the kernel tests on other kernels",
            Self::Prometheus => "tests make advice of what a real server remembers",
            Self::Curl => curl::PACKAGE.why,
            Self::CargoDeny => "checks licences, bans and sources of the dependency tree",
            Self::CargoMutants => "changes the rules in small ways and checks that a test fails",
            Self::CargoFuzz => "looks for inputs that break what reads them",
        }
    }

    /// What is not possible without it.
    pub const fn loss(&self) -> &'static str {
        match self {
            Self::Nightly | Self::BpfLinker => {
                "the agent is built without its kernel programs and reads procfs only"
            }
            Self::Controlplane(_) => "no demo, and no tests against an API server",
            Self::Kubelet => {
                "each node is kept by a status writer, which writes what a kubelet writes; tests that insist on a \
                 kubelet fail"
            }
            Self::Emulator => "no tests on other kernels",
            Self::Prometheus => "the test of advice fails",
            Self::Curl => "one of the commands that the demo shows does not work, and its test fails",
            Self::CargoDeny => "the dependency tree is not checked",
            Self::CargoMutants => "no mutants",
            Self::CargoFuzz => "no fuzzing; what was found before is replayed all the same",
        }
    }

    /// False if one can do without it: the portable crates and their tests ask for nothing here.
    pub const fn is_essential(&self) -> bool {
        match self {
            Self::Nightly
            | Self::BpfLinker
            | Self::Kubelet
            | Self::Emulator
            | Self::Prometheus
            | Self::Curl
            | Self::CargoDeny
            | Self::CargoMutants
            | Self::CargoFuzz => false,
            Self::Controlplane(_) => true,
        }
    }

    /// CPU time that getting it takes, about: docs/journal has the figures.
    pub(super) fn costs(&self) -> Duration {
        Duration::from_secs(match self {
            Self::Nightly | Self::Curl => 5,
            Self::BpfLinker => 170,
            Self::Controlplane(components) => {
                controlplane::costs_s(&controlplane::missing(components).unwrap_or_default())
            }
            Self::Kubelet => controlplane::costs_s(&[Component::Hollow]),
            Self::Emulator => 60,
            Self::Prometheus => 10,
            Self::CargoDeny | Self::CargoMutants | Self::CargoFuzz => 200,
        })
    }

    pub(super) const fn lane(&self) -> Lane {
        match self {
            Self::Nightly | Self::BpfLinker => Lane::Rust,
            Self::Controlplane(_) | Self::Kubelet => Lane::Go,
            Self::Emulator
            | Self::Prometheus
            | Self::Curl
            | Self::CargoDeny
            | Self::CargoMutants
            | Self::CargoFuzz => Lane::Other,
        }
    }

    /// The programs of the control plane in it.
    pub(super) fn components(&self) -> Vec<Component> {
        match self {
            Self::Controlplane(components) => components.clone(),
            Self::Kubelet => vec![Component::Hollow],
            Self::Nightly
            | Self::BpfLinker
            | Self::Emulator
            | Self::Prometheus
            | Self::Curl
            | Self::CargoDeny
            | Self::CargoMutants
            | Self::CargoFuzz => Vec::new(),
        }
    }

    /// What there is of it, or `None` if it must be got.
    pub(super) fn find(&self) -> Result<Option<String>> {
        Ok(match self {
            Self::Nightly => Toolchain::find().map(|toolchain| toolchain.describe()),
            Self::BpfLinker => bpf_linker::find(),
            Self::Controlplane(_) | Self::Kubelet => whereabouts(&self.components())?,
            Self::Emulator => emulator::find(),
            Self::Prometheus => prometheus::find().map(|found| found.server.display().to_string()),
            Self::Curl => curl::find(),
            Self::CargoDeny => DENY.find(),
            Self::CargoMutants => MUTANTS.find(),
            Self::CargoFuzz => workspace::on_path("c++").and_then(|_| FUZZ.find()),
        })
    }

    pub(super) fn get(&self) -> Result<()> {
        match self {
            Self::Nightly => Toolchain::ensure().map(drop),
            Self::BpfLinker => bpf_linker::ensure(),
            Self::Controlplane(_) | Self::Kubelet => controlplane::ensure(&self.components()).map(drop),
            Self::Emulator => emulator::ensure(),
            Self::Prometheus => prometheus::ensure(),
            Self::Curl => curl::ensure(),
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

/// The folders that the programs are in, each once; `None` if one is missing.
fn whereabouts(components: &[Component]) -> Result<Option<String>> {
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
