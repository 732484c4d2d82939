//! Set-up: what tests and the demo need beyond Rust and git; found first, else got, and said either way.

pub mod bpf_linker;
pub mod debian;
pub mod emulator;
pub mod golang;
pub mod prometheus;
pub mod step;
pub mod toolchain;

use std::time::{Duration, Instant};

use anyhow::{Error, Result, bail};

use self::toolchain::Toolchain;
use crate::{
    controlplane::{self, Component},
    terminal::{say, span},
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
}

/// Something that could not be got.
#[derive(Debug)]
pub struct Obstacle {
    /// What.
    pub item: Item,
    /// Why not, and how to get it.
    pub cause: Error,
}

/// How set-up ended.
#[derive(Debug)]
pub struct Ready {
    /// What is missing.
    pub obstacles: Vec<Obstacle>,
}

impl Item {
    /// Everything that the demo needs, in the order in which it is got.
    pub fn of_demo() -> Vec<Self> {
        vec![
            Self::Nightly,
            Self::BpfLinker,
            Self::Controlplane(Component::CONTROL_PLANE.to_vec()),
            Self::Kubelet,
        ]
    }

    /// Everything that the demo and the tests on this kernel need, in the order in which it is got.
    pub fn all() -> Vec<Self> {
        [Self::of_demo(), vec![Self::Prometheus]].concat()
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
        }
    }

    /// False if one can do without it: the portable crates and their tests ask for nothing here.
    pub const fn is_essential(&self) -> bool {
        match self {
            Self::Nightly | Self::BpfLinker | Self::Kubelet | Self::Emulator | Self::Prometheus => false,
            Self::Controlplane(_) => true,
        }
    }

    /// What there is of it, or `None` if it must be got.
    fn find(&self) -> Result<Option<String>> {
        Ok(match self {
            Self::Nightly => Toolchain::find().map(|toolchain| toolchain.describe()),
            Self::BpfLinker => bpf_linker::find(),
            Self::Controlplane(components) => whereabouts(components)?,
            Self::Kubelet => whereabouts(&[Component::Hollow])?,
            Self::Emulator => emulator::find(),
            Self::Prometheus => prometheus::find().map(|found| found.server.display().to_string()),
        })
    }

    fn get(&self) -> Result<()> {
        match self {
            Self::Nightly => Toolchain::ensure().map(drop),
            Self::BpfLinker => bpf_linker::ensure(),
            Self::Controlplane(components) => controlplane::ensure(components).map(drop),
            Self::Kubelet => controlplane::ensure(&[Component::Hollow]).map(drop),
            Self::Emulator => emulator::ensure(),
            Self::Prometheus => prometheus::ensure(),
        }
    }
}

impl Ready {
    /// Fails if something essential is missing.
    ///
    /// # Errors
    /// As said; what is missing has been said in full before.
    pub fn check(&self) -> Result<()> {
        let missing: Vec<&str> = self
            .obstacles
            .iter()
            .map(|obstacle| &obstacle.item)
            .filter(|item| item.is_essential())
            .map(Item::name)
            .collect();
        if !missing.is_empty() {
            bail!("set-up could not get: {}", missing.join(", "));
        }
        Ok(())
    }
}

/// Finds or gets the items, and says what and why. What cannot be got is said with the way to get it, and does not
/// keep the rest from being got.
///
/// # Errors
/// If the workspace itself cannot be read.
pub fn run(items: &[Item]) -> Result<Ready> {
    let start = Instant::now();
    let mut missing = Vec::new();
    for item in items {
        match item.find()? {
            Some(found) => say(format!("ready    {}: {found}", item.name())),
            None => missing.push(item),
        }
    }
    for item in &missing {
        say(format!("missing  {}: {}", item.name(), item.why()));
    }
    let mut obstacles = Vec::new();
    for item in &missing {
        if let Err(cause) = item.get() {
            obstacles.push(Obstacle {
                item: (*item).clone(),
                cause,
            });
        }
    }
    for Obstacle { item, cause } in &obstacles {
        say(format!(
            "\nCould not get {}: {cause:#}\nWithout it: {}.",
            item.name(),
            item.loss()
        ));
    }
    if !missing.is_empty() {
        say(format!(
            "Set-up took {}.",
            span(start.elapsed().max(Duration::from_secs(1)))
        ));
    }
    Ok(Ready { obstacles })
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

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn ready(missing: Vec<Item>) -> Ready {
        let obstacles = missing.into_iter().map(|item| Obstacle {
            item,
            cause: anyhow!("no network"),
        });
        Ready {
            obstacles: obstacles.collect(),
        }
    }

    #[test]
    fn only_an_essential_loss_fails_the_set_up() {
        assert!(ready(vec![]).check().is_ok());
        assert!(
            ready(vec![Item::Nightly, Item::BpfLinker, Item::Kubelet])
                .check()
                .is_ok()
        );
        let error = ready(vec![Item::Nightly, Item::Controlplane(vec![Component::Etcd])])
            .check()
            .expect_err("essential");
        assert_eq!(error.to_string(), "set-up could not get: control plane");
    }
}
