//! `cargo xtask test --vm`: runs the kernel tests on other kernels, in an emulated machine with cgroup version 2 only.
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

/// Boots a kernel of each series for each of these reasons, runs its tests there, and counts them. The filter, by which a
/// name must contain it, holds for the plain boot.
///
/// # Errors
/// If set-up fails, the tests do not compile, a kernel cannot be had or a guest cannot be started. Failed tests are no
/// error, and a guest that does not come to its end is a failed test.
pub(super) fn run(series: &[&str], boots: &[Boot], filter: Option<&str>) -> Result<Vec<Row>> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "the machine is an emulated x86-64 and cannot run the programs of this one"
    );
    print(
        "The kernel tests run on Debian's kernels in an emulated machine with cgroup version 2 only, its clock driven by \
         the instructions it runs. One kernel takes half an hour and is booted six times.",
    );
    let start = Instant::now();
    setup::run(&[Item::Nightly, Item::BpfLinker, Item::Emulator])?.check_all()?;
    let (kernels, gone) = kernels(series)?;
    let mut rows = vec![Row::new("set-up", start.elapsed(), Tally::default())];

    let start = Instant::now();
    let plan = Plan::build()?;
    let tests: Vec<&Path> = plan
        .programs(Kind::Kernel)
        .map(|program| program.path.as_path())
        .collect();
    rows.push(Row::new("build", start.elapsed(), Tally::default()));
    rows.extend(gone);

    let guests = kernels
        .iter()
        .flat_map(|kernel| boots.iter().map(move |&boot| Guest { kernel, boot }));
    for guest in guests {
        // A disk of its own: what one guest leaves on it is nothing to the next.
        let disk = Disk::create(&tests, &plan.others)?;
        let start = Instant::now();
        let tally = guest.run(&disk, filter)?;
        let took = start.elapsed().max(Duration::from_secs(1));
        rows.push(Row::new(&guest.name(), took, tally));
    }
    Ok(rows)
}

/// Kernels of these series, and a row for each series of which none can be had any more: its tests are not run.
fn kernels(series: &[&str]) -> Result<(Vec<Kernel>, Vec<Row>)> {
    let (mut kernels, mut gone) = (Vec::new(), Vec::new());
    for series in series {
        let start = Instant::now();
        match Kernel::ensure(series) {
            Ok(kernel) => kernels.push(kernel),
            Err(error) if kernel::may_be_gone(series) => {
                print(format!("not run  Linux {series}: {error:#}"));
                let skipped = Tally {
                    skipped: 1,
                    ..Tally::default()
                };
                gone.push(Row::new(series, start.elapsed(), skipped));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((kernels, gone))
}

/// Where kernels and consoles are kept.
fn folder() -> PathBuf {
    workspace::target().join("vm")
}
