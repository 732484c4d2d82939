//! `cargo xtask test --vm`: runs the kernel tests on other kernels, in an emulated machine with cgroup v2 only.
//!
//! ```text
//! Debian's kernel ─┐
//! test programs ───┼─> disk ─> QEMU, one guest at a time ─> its console ─> counts
//! init.sh ─────────┘
//! ```

mod boot;
mod disk;
mod guest;
mod kernel;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

pub(super) use self::{boot::Boot, kernel::SERIES};
use self::{disk::Disk, guest::Guest, kernel::Kernel};
use super::{
    Kind,
    plan::Plan,
    tally::{Row, Tally},
};
use crate::{
    setup::{self, Item},
    terminal::print,
    workspace,
};

/// Boots a kernel of each series in each of these configurations, runs the tests there, and counts them. The filter applies
/// to the plain boot: it selects tests whose name contains it.
///
/// # Errors
/// If set-up fails, the tests do not compile, a kernel cannot be downloaded or a guest cannot be started. Failed tests are no
/// error; a guest that ends early or times out counts as one failed test.
pub(super) fn run(series: &[&str], boots: &[Boot], filter: Option<&str>) -> Result<Vec<Row>> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "the emulated machine is x86-64 and cannot run programs built on this machine"
    );
    print(
        "The kernel tests run on Debian's kernels in an emulated machine with cgroup v2 only. Its clock counts executed \
         instructions. Each kernel is booted six times and takes half an hour.",
    );
    let start = Instant::now();
    setup::run(&[Item::Nightly, Item::BpfLinker, Item::Emulator])?.check_all()?;
    let (kernels, unavailable) = kernels(series)?;
    let mut rows = vec![Row::new("set-up", start.elapsed(), Tally::default())];

    let start = Instant::now();
    let plan = Plan::build()?;
    let tests: Vec<&Path> = plan
        .programs(Kind::Kernel)
        .map(|program| program.path.as_path())
        .collect();
    rows.push(Row::new("build", start.elapsed(), Tally::default()));
    rows.extend(unavailable);

    let guests = kernels
        .iter()
        .flat_map(|kernel| boots.iter().map(move |&boot| Guest { kernel, boot }));
    for guest in guests {
        // Each guest has a new disk, so that no files of an earlier guest remain.
        let disk = Disk::create(&tests, &plan.others)?;
        let start = Instant::now();
        let tally = guest.run(&disk, filter)?;
        let took = start.elapsed().max(Duration::from_secs(1));
        rows.push(Row::new(&guest.name(), took, tally));
    }
    Ok(rows)
}

/// Kernels of these series, and a row of skipped tests for each series that Debian's mirrors no longer have.
fn kernels(series: &[&str]) -> Result<(Vec<Kernel>, Vec<Row>)> {
    let (mut kernels, mut unavailable) = (Vec::new(), Vec::new());
    for series in series {
        let start = Instant::now();
        match Kernel::ensure(series) {
            Ok(kernel) => kernels.push(kernel),
            Err(error) if kernel::may_be_unavailable(series) => {
                print(format!("skipped  Linux {series}: {error:#}"));
                let skipped = Tally {
                    skipped: 1,
                    ..Tally::default()
                };
                unavailable.push(Row::new(series, start.elapsed(), skipped));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((kernels, unavailable))
}

/// Folder of kernels and console logs.
fn folder() -> PathBuf {
    workspace::target().join("vm")
}
