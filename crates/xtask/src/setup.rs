//! Set-up: what tests and the demo need beyond Rust and git; found first, else got, and said either way.

pub mod bpf_linker;
pub mod debian;
pub mod golang;
pub mod step;
pub mod toolchain;

use std::{
    path::Path,
    time::{Duration, Instant},
};

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
    /// Everything, in the order in which it is got.
    pub fn all() -> Vec<Self> {
        vec![
            Self::Nightly,
            Self::BpfLinker,
            Self::Controlplane(Component::ALL.to_vec()),
        ]
    }

    /// What it is called.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Nightly => "nightly Rust with rust-src",
            Self::BpfLinker => "bpf-linker",
            Self::Controlplane(_) => "control plane",
        }
    }

    /// Why it is needed.
    pub const fn why(&self) -> &'static str {
        match self {
            Self::Nightly => "compiles the kernel programs: the BPF target has no ready-made core library",
            Self::BpfLinker => "links the kernel programs",
            Self::Controlplane(_) => "tests and the demo run a real etcd, Kubernetes and kubelet",
        }
    }

    /// What is not possible without it.
    pub const fn loss(&self) -> &'static str {
        match self {
            Self::Nightly | Self::BpfLinker => {
                "the agent is built without its kernel programs and reads procfs only"
            }
            Self::Controlplane(_) => "no demo, and no tests against an API server",
        }
    }

    /// False if one can do without it: the portable crates and their tests ask for nothing here.
    pub const fn is_essential(&self) -> bool {
        match self {
            Self::Nightly | Self::BpfLinker => false,
            Self::Controlplane(_) => true,
        }
    }

    /// What there is of it, or `None` if it must be got.
    fn find(&self) -> Result<Option<String>> {
        Ok(match self {
            Self::Nightly => Toolchain::find().map(|toolchain| toolchain.describe()),
            Self::BpfLinker => bpf_linker::find(),
            Self::Controlplane(components) if controlplane::missing(components)?.is_empty() => {
                Some(whereabouts(components)?)
            }
            Self::Controlplane(_) => None,
        })
    }

    fn get(&self) -> Result<()> {
        match self {
            Self::Nightly => Toolchain::ensure().map(drop),
            Self::BpfLinker => bpf_linker::ensure(),
            Self::Controlplane(components) => controlplane::ensure(components).map(drop),
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

/// The folders that the programs are in, each once.
fn whereabouts(components: &[Component]) -> Result<String> {
    let mut folders = Vec::new();
    for &component in components {
        let folder =
            controlplane::find(component)?.and_then(|program| program.path.parent().map(Path::to_owned));
        folders.extend(folder.map(|folder| folder.display().to_string()));
    }
    folders.dedup();
    Ok(folders.join(", "))
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
        assert!(ready(vec![Item::Nightly, Item::BpfLinker]).check().is_ok());
        let error = ready(vec![Item::Nightly, Item::Controlplane(vec![Component::Etcd])])
            .check()
            .expect_err("essential");
        assert_eq!(error.to_string(), "set-up could not get: control plane");
    }

    #[test]
    fn all_components_are_part_of_everything() {
        assert!(Item::all().contains(&Item::Controlplane(Component::ALL.to_vec())));
    }
}
