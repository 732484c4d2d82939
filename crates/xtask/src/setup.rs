//! Set-up: finds or installs the tools that tests and the demo need beyond Rust and git, and reports them.

pub mod bpf_linker;
pub mod buildah;
pub mod cargo_tool;
pub mod chart_tools;
pub mod container_runtime;
pub mod controlplane;
pub mod curl;
pub mod debian;
pub mod earlier_programs;
pub mod emulator;
pub mod golang;
mod item;
pub mod make;
pub mod musl;
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
use self::{controlplane::Component, item::Lane};
use crate::terminal::{print, span};

/// An item that could not be installed.
#[derive(Debug)]
pub struct MissingItem {
    pub item: Item,
    /// The reason, and how to install it by hand.
    pub cause: Error,
}

#[derive(Debug)]
pub struct SetupResult {
    pub missing: Vec<MissingItem>,
}

impl SetupResult {
    /// Checks that all essential items are present.
    ///
    /// # Errors
    /// If one is missing. Set-up has printed the reason.
    pub fn check(&self) -> Result<()> {
        self.check_items(Item::is_essential)
    }

    /// Checks that all items are present.
    ///
    /// # Errors
    /// Errors of [`Self::check`].
    pub fn check_all(&self) -> Result<()> {
        self.check_items(|_| true)
    }

    fn check_items(&self, is_needed: impl Fn(&Item) -> bool) -> Result<()> {
        let missing = self.missing.iter().map(|missing| &missing.item);
        let missing: Vec<&str> = missing.filter(|item| is_needed(item)).map(Item::name).collect();
        if !missing.is_empty() {
            bail!("set-up could not install: {}", missing.join(", "));
        }
        Ok(())
    }
}

/// Finds or installs the items; prints each with its reason, and the expected time. An item that cannot be installed is
/// printed with instructions, and set-up continues with the others.
///
/// # Errors
/// If the workspace cannot be read.
pub fn run(items: &[Item]) -> Result<SetupResult> {
    run_with_build(items, Duration::ZERO, || Ok(())).map(|(ready, ())| ready)
}

/// Like [`run`], with a build of the workspace that needs about `costs` of CPU time. The build starts as soon as the Rust items
/// are installed, in parallel with the other items.
///
/// # Errors
/// Errors of [`run`] and of the build; the parallel installations are completed first.
pub fn run_with_build<T: Send>(
    items: &[Item],
    costs: Duration,
    build: impl FnOnce() -> Result<T> + Send,
) -> Result<(SetupResult, T)> {
    let start = Instant::now();
    let missing = missing(items)?;
    let costs = costs + missing.iter().map(Item::costs).sum::<Duration>();
    if !costs.is_zero() {
        print(format!(
            "Installing missing items and building takes about {} on {} CPUs, once.",
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
    let (built, missing_items) = thread::scope(|scope| {
        let other_lanes = [Lane::Go, Lane::Other].map(|lane| {
            let items: Vec<Item> = of_lane(lane);
            scope.spawn(move || lane.install(&items))
        });
        let mut missing_items = Lane::Rust.install(&of_lane(Lane::Rust));
        let built = build();
        for lane in other_lanes {
            missing_items.extend(lane.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        (built, missing_items)
    });
    if !missing.is_empty() {
        print(format!(
            "Set-up took {}.",
            span(start.elapsed().max(Duration::from_secs(1)))
        ));
    }
    let result = SetupResult {
        missing: missing_items,
    };
    Ok((result, built?))
}

/// Prints the state of each item, and returns the missing ones.
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
    /// Installs items one after another; returns those that failed.
    fn install(self, items: &[Item]) -> Vec<MissingItem> {
        if self == Self::Go && items.len() > 1 && controlplane::ensure(&components(items)).is_ok() {
            return Vec::new();
        }
        let failed = items.iter().filter_map(|item| {
            let cause = item.install().err()?;
            print(format!(
                "\nCould not install {}: {cause:#}\nWithout it: {}.\n",
                item.name(),
                item.loss()
            ));
            let item = item.clone();
            Some(MissingItem { item, cause })
        });
        failed.collect()
    }
}

/// All Go programs of the items. One build of all of them keeps every CPU busy.
fn components(items: &[Item]) -> Vec<Component> {
    items.iter().flat_map(Item::components).collect()
}

/// Formats whole minutes, rounded up, at least 1.
fn minutes(time: Duration) -> String {
    format!("{} min", time.as_secs().div_ceil(60).max(1))
}

fn cpus() -> u32 {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cpus).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn result(missing: Vec<Item>) -> SetupResult {
        let missing = missing.into_iter().map(|item| MissingItem {
            item,
            cause: anyhow!("no network"),
        });
        SetupResult {
            missing: missing.collect(),
        }
    }

    #[test]
    fn set_up_fails_only_if_essential_items_are_missing() {
        assert!(result(vec![]).check().is_ok());
        assert!(
            result(vec![Item::Nightly, Item::BpfLinker, Item::RealNode])
                .check()
                .is_ok()
        );
        let missing = vec![
            Item::Nightly,
            Item::Controlplane(vec![Component::Etcd]),
            Item::Kubelet,
        ];
        let error = result(missing).check().expect_err("essential");
        assert_eq!(
            error.to_string(),
            "set-up could not install: control plane, kubelet code"
        );
    }
}
