//! Measures what reading CPU counters costs on a machine with 256 CPUs, on any machine: with maps as large as there, and
//! made-up files of procfs.

use std::{fmt::Write as _, fs, thread, time::Duration};

use anyhow::{Context as _, Result, anyhow, ensure};
use headroom_agent::{
    gather::POLL,
    kernel::probe::wide_maps::{CPUS, WideMaps},
    sample::{
        STAT_EVERY, Sampler,
        clock::Clocks,
        procfs::Procfs,
        ring::{RingSource, SAMPLING_SHIFT},
    },
};
use headroom_testbed::{folder::Folder, thread::cpu_time};

/// So much time is read: readings of a minute.
const READ: Duration = Duration::from_secs(60);
/// A calm node is read so often.
const CALM: Duration = Duration::from_secs(1);

/// Values of the maps are a megabyte each, and go over the stack.
const STACK: usize = 32 << 20;

/// Shares of one CPU, in percent, of a thread that reads the counters of 256 CPUs.
#[derive(Debug, Clone, Copy)]
pub(super) struct ManyCpus {
    /// While CPUs are nearly full.
    pub(super) close_pct: f64,
    /// On a calm node.
    pub(super) calm_pct: f64,
}

impl ManyCpus {
    /// Needs the capability to make maps.
    pub(super) fn measure() -> Result<Self> {
        let folder = Folder::new("headroom-many-cpus")?;
        let files = machine(&folder)?;
        let body = move || -> Result<Self> {
            Ok(Self {
                close_pct: share_pct(&files, POLL)?,
                calm_pct: share_pct(&files, CALM)?,
            })
        };
        let thread = thread::Builder::new().stack_size(STACK).spawn(body)?;
        thread.join().map_err(|_panic| anyhow!("the reader panicked"))?
    }
}

/// The files that are read beside the maps.
fn machine(folder: &Folder) -> Result<Procfs> {
    let (proc, sys) = (folder.path().join("proc"), folder.path().join("sys"));
    let cpus = sys.join("devices/system/cpu");
    for made in [&proc, &cpus] {
        fs::create_dir_all(made).context("make a folder")?;
    }
    let mut stat = "cpu 0\n".to_owned();
    for cpu in 0..CPUS {
        writeln!(stat, "cpu{cpu} 1234567 1234 123456 12345678 12345 0 1234 0 0 0")?;
    }
    fs::write(proc.join("stat"), stat).context("write stat")?;
    fs::write(cpus.join("online"), format!("0-{}\n", CPUS - 1)).context("write online")?;
    Ok(Procfs::at(&proc, &sys))
}

/// What readings take of one CPU that are made so often. Time only passes for the maps: nobody waits for it.
fn share_pct(files: &Procfs, every: Duration) -> Result<f64> {
    let start = Clocks::read();
    let after = |passed: Duration| -> Result<Clocks> {
        let passed_ns = u64::try_from(passed.as_nanos())?;
        Ok(Clocks {
            monotonic_ns: start.monotonic_ns + passed_ns,
            boottime_ns: start.boottime_ns + passed_ns,
        })
    };
    let maps = WideMaps::new(start.monotonic_ns)?;
    let source = RingSource::new(maps.clone(), SAMPLING_SHIFT, start.monotonic_ns)?;
    let mut sampler = Sampler::new(Box::new(source), files.clone(), STAT_EVERY, start)?;
    let (mut passed, mut used) = (Duration::ZERO, Duration::ZERO);
    while passed < READ {
        passed += every;
        let now = after(passed)?;
        maps.run_until(now.monotonic_ns)?;
        let begun = cpu_time();
        let poll = sampler.poll(now)?;
        used += cpu_time().saturating_sub(begun);
        let counts = &poll.counts;
        ensure!(
            counts.lost_windows == 0 && counts.busy_ns > 0 && !counts.windows.windows.is_empty(),
            "the maps were not read: {counts:?}"
        );
    }
    Ok(used.as_secs_f64() / passed.as_secs_f64() * 100.0)
}
