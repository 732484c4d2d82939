//! `cargo xtask test --vm`: the kernel tests on other kernels, in an emulated machine with cgroup version 2 only.
//!
//! ```text
//! Debian's kernel ─┐
//! test programs ───┼─> disk ─> QEMU, one guest at a time ─> its console ─> counts
//! our init ────────┘
//! ```

mod boot;
mod disk;
mod guest;
mod kernel;

use std::{
    env,
    io::BufReader,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use cargo_metadata::Message;

pub(super) use self::kernel::SERIES;
use self::{boot::Boot, disk::Disk, guest::Guest, kernel::Kernel};
use super::{
    Kind,
    plan::Plan,
    tally::{Row, Tally},
};
use crate::{
    headroom::Programs,
    setup::{self, Item},
    terminal::say,
    workspace,
};

/// Runs the kernel tests whose name contains the filter on a kernel of each series, and counts them.
///
/// # Errors
/// If set-up fails, the tests do not compile, a kernel cannot be had or a guest cannot be started. Failed tests are no
/// error, and a guest that does not come to its end is a failed test.
pub(super) fn run(series: &[&str], filter: Option<&str>) -> Result<Vec<Row>> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "the machine is an emulated x86-64 and cannot run the programs of this one"
    );
    say(
        "The kernel tests run on Debian's kernels in an emulated machine with cgroup version 2 only, its clock driven by \
         the instructions it runs. One kernel takes a quarter of an hour and is booted twice.",
    );
    // Tests have this very program run as the load of a pod. Asked for now: what is built below may replace it.
    let own = env::current_exe().context("find this program")?;
    let start = Instant::now();
    setup_all()?;
    let kernels = series
        .iter()
        .map(|series| Kernel::ensure(series))
        .collect::<Result<Vec<Kernel>>>()?;
    let mut rows = vec![Row::new("set-up", start.elapsed(), Tally::default())];

    let start = Instant::now();
    let Programs { agent, cli, .. } = Programs::build()?;
    let Built { tests, others } = Built::new()?;
    let programs = [vec![agent, cli, own], others].concat();
    rows.push(Row::new("build", start.elapsed(), Tally::default()));

    let guests = kernels
        .iter()
        .flat_map(|kernel| Boot::ALL.map(|boot| Guest { kernel, boot }));
    for guest in guests {
        let tests: Vec<&Path> = tests
            .iter()
            .filter(|(target, _)| guest.boot.runs(target))
            .map(|(_, program)| program.as_path())
            .collect();
        // A disk of its own: what one guest leaves on it is nothing to the next.
        let disk = Disk::create(&tests, &programs)?;
        let start = Instant::now();
        let tally = guest.run(&disk, filter)?;
        let took = start.elapsed().max(Duration::from_secs(1));
        rows.push(Row::new(&guest.name(), took, tally));
    }
    Ok(rows)
}

fn setup_all() -> Result<()> {
    let ready = setup::run(&[Item::Nightly, Item::BpfLinker, Item::Emulator])?;
    let missing: Vec<&str> = ready
        .obstacles
        .iter()
        .map(|obstacle| obstacle.item.name())
        .collect();
    if !missing.is_empty() {
        bail!("set-up could not get: {}", missing.join(", "));
    }
    Ok(())
}

/// The kernel tests as programs.
struct Built {
    /// The name of each file of tests, and its program.
    tests: Vec<(String, PathBuf)>,
    /// Programs of their package that they start.
    others: Vec<PathBuf>,
}

impl Built {
    /// Builds them in the selection of packages that all tests are built in.
    fn new() -> Result<Self> {
        let plan = Plan::read()?;
        let arguments = plan.runs(Kind::Kernel).concat();
        say(format!("\n== cargo test --no-run {}", arguments.join(" ")));
        let mut child = workspace::cargo()
            .args(["test", "--workspace", "--no-run", "--quiet"])
            .arg("--message-format=json-render-diagnostics")
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start cargo")?;
        let output = child.stdout.take().context("read the output of cargo")?;
        let mut built = Self {
            tests: Vec::new(),
            others: Vec::new(),
        };
        for message in Message::parse_stream(BufReader::new(output)) {
            if let Message::CompilerArtifact(artifact) = message.context("read the output of cargo")? {
                let target = artifact.target.name;
                match artifact.executable.map(PathBuf::from) {
                    Some(program) if arguments.contains(&target.as_str()) => {
                        built.tests.push((target, program));
                    }
                    Some(program) => built.others.push(program),
                    None => {}
                }
            }
        }
        let status = child.wait().context("await cargo")?;
        ensure!(status.success(), "the kernel tests do not compile ({status})");
        Ok(built)
    }
}

/// Where kernels and consoles are kept.
fn folder() -> PathBuf {
    workspace::target().join("vm")
}
