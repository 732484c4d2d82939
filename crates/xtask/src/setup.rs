//! Set-up: finds the tools that tests and the demo need beyond Rust and git, or gets them, and reports which.

pub mod bpf_linker;
pub mod cargo_tool;
pub mod curl;
pub mod debian;
pub mod emulator;
pub mod golang;
mod item;
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

pub use self::item::Item;
use self::item::Lane;
use crate::{
    controlplane::{self, Component},
    terminal::{print, span},
};

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
