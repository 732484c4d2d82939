//! Set-up: finds the tools that tests and the demo need beyond Rust and git, or gets them, and reports which.

pub mod bpf_linker;
pub mod cargo_tool;
pub mod debian;
pub mod emulator;
pub mod golang;
pub mod make;
pub mod prometheus;
pub mod step;
pub mod toolchain;

use std::{
    num::NonZero,
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Error, Result, bail};

use self::{
    cargo_tool::{DENY, FUZZ, MUTANTS},
    debian::Package,
    toolchain::Toolchain,
};
use crate::{
    controlplane::{self, Component},
    terminal::{print, span},
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
enum Lane {
    /// What our own programs are built with.
    Rust,
    /// What is built from Go modules.
    Go,
    /// The rest.
    Other,
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
            Self::Controlplane(Component::RUNNING.to_vec()),
            Self::Kubelet,
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
            | Self::CargoDeny
            | Self::CargoMutants
            | Self::CargoFuzz => false,
            Self::Controlplane(_) => true,
        }
    }

    /// CPU time that getting it takes, about: docs/journal has the figures.
    fn costs(&self) -> Duration {
        Duration::from_secs(match self {
            Self::Nightly => 5,
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

    const fn lane(&self) -> Lane {
        match self {
            Self::Nightly | Self::BpfLinker => Lane::Rust,
            Self::Controlplane(_) | Self::Kubelet => Lane::Go,
            Self::Emulator | Self::Prometheus | Self::CargoDeny | Self::CargoMutants | Self::CargoFuzz => {
                Lane::Other
            }
        }
    }

    /// The programs of the control plane in it.
    fn components(&self) -> Vec<Component> {
        match self {
            Self::Controlplane(components) => components.clone(),
            Self::Kubelet => vec![Component::Hollow],
            Self::Nightly
            | Self::BpfLinker
            | Self::Emulator
            | Self::Prometheus
            | Self::CargoDeny
            | Self::CargoMutants
            | Self::CargoFuzz => Vec::new(),
        }
    }

    /// What there is of it, or `None` if it must be got.
    fn find(&self) -> Result<Option<String>> {
        Ok(match self {
            Self::Nightly => Toolchain::find().map(|toolchain| toolchain.describe()),
            Self::BpfLinker => bpf_linker::find(),
            Self::Controlplane(_) | Self::Kubelet => whereabouts(&self.components())?,
            Self::Emulator => emulator::find(),
            Self::Prometheus => prometheus::find().map(|found| found.server.display().to_string()),
            Self::CargoDeny => DENY.find(),
            Self::CargoMutants => MUTANTS.find(),
            Self::CargoFuzz => workspace::on_path("c++").and_then(|_| FUZZ.find()),
        })
    }

    fn get(&self) -> Result<()> {
        match self {
            Self::Nightly => Toolchain::ensure().map(drop),
            Self::BpfLinker => bpf_linker::ensure(),
            Self::Controlplane(_) | Self::Kubelet => controlplane::ensure(&self.components()).map(drop),
            Self::Emulator => emulator::ensure(),
            Self::Prometheus => prometheus::ensure(),
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

impl Ready {
    /// Fails if something essential is missing.
    ///
    /// # Errors
    /// As said; what is missing has been said in full before.
    pub fn check(&self) -> Result<()> {
        self.check_those(Item::is_essential)
    }

    /// Fails if anything is missing.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_all(&self) -> Result<()> {
        self.check_those(|_| true)
    }

    fn check_those(&self, is_needed: impl Fn(&Item) -> bool) -> Result<()> {
        let missing = self.obstacles.iter().map(|obstacle| &obstacle.item);
        let missing: Vec<&str> = missing.filter(|item| is_needed(item)).map(Item::name).collect();
        if !missing.is_empty() {
            bail!("set-up could not get: {}", missing.join(", "));
        }
        Ok(())
    }
}

/// Finds or gets the items, and says what, why and about how long it takes. What cannot be got is said with the way to get
/// it, and does not keep the rest from being got.
///
/// # Errors
/// If the workspace itself cannot be read.
pub fn run(items: &[Item]) -> Result<Ready> {
    run_beside(items, Duration::ZERO, || Ok(())).map(|(ready, ())| ready)
}

/// As [`run`], with a build of ours that takes about `costs` of CPU time. It begins as soon as what it needs is there, and
/// goes on beside the rest.
///
/// # Errors
/// As [`run`], or if the build fails; what is being got meanwhile is got first.
pub fn run_beside<T: Send>(
    items: &[Item],
    costs: Duration,
    build: impl FnOnce() -> Result<T> + Send,
) -> Result<(Ready, T)> {
    let start = Instant::now();
    let missing = missing(items)?;
    let costs = costs + missing.iter().map(Item::costs).sum::<Duration>();
    if !costs.is_zero() {
        print(format!(
            "Getting what is missing and building takes about {} on {} CPUs, once.",
            minutes(costs / cpus()),
            cpus()
        ));
    }
    let of_lane = |lane| {
        missing
            .iter()
            .filter(move |item| item.lane() == lane)
            .cloned()
            .collect()
    };
    let (built, obstacles) = thread::scope(|scope| {
        let beside = [Lane::Go, Lane::Other].map(|lane| {
            let items: Vec<Item> = of_lane(lane);
            scope.spawn(move || lane.get(&items))
        });
        let mut obstacles = Lane::Rust.get(&of_lane(Lane::Rust));
        let built = build();
        for lane in beside {
            let got = lane.join().unwrap_or_else(|panic| resume_unwind(panic));
            obstacles.extend(got);
        }
        (built, obstacles)
    });
    if !missing.is_empty() {
        print(format!(
            "Set-up took {}.",
            span(start.elapsed().max(Duration::from_secs(1)))
        ));
    }
    Ok((Ready { obstacles }, built?))
}

/// Says of each item whether it is there, and returns those that are not.
fn missing(items: &[Item]) -> Result<Vec<Item>> {
    let mut missing = Vec::new();
    for item in items {
        match item.find()? {
            Some(found) => print(format!("ready    {}: {found}", item.name())),
            None => missing.push(item.clone()),
        }
    }
    for item in &missing {
        print(format!("missing  {}: {}", item.name(), item.why()));
    }
    Ok(missing)
}

impl Lane {
    /// Gets items one after another.
    fn get(self, items: &[Item]) -> Vec<Obstacle> {
        if self == Self::Go && items.len() > 1 && controlplane::ensure(&components(items)).is_ok() {
            return Vec::new();
        }
        let obstacles = items.iter().filter_map(|item| {
            let cause = item.get().err()?;
            print(format!(
                "\nCould not get {}: {cause:#}\nWithout it: {}.\n",
                item.name(),
                item.loss()
            ));
            let item = item.clone();
            Some(Obstacle { item, cause })
        });
        obstacles.collect()
    }
}

/// All programs that are to be built from Go modules: built together, they keep every CPU busy.
fn components(items: &[Item]) -> Vec<Component> {
    items.iter().flat_map(Item::components).collect()
}

/// Whole minutes, as people promise them.
fn minutes(time: Duration) -> String {
    format!("{} min", time.as_secs().div_ceil(60).max(1))
}

/// The CPUs that this process may use.
fn cpus() -> u32 {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cpus).unwrap_or(u32::MAX)
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
