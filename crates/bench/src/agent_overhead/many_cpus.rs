//! Measures the cost of reading the CPU counters of 256 CPUs, on any machine: with kernel maps of that size and
//! generated procfs files.

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

/// Simulated time that is read.
const READ: Duration = Duration::from_secs(60);
/// Poll interval on a calm node.
const CALM: Duration = Duration::from_secs(1);

/// Values of the maps are 1 MB each and are passed on the stack.
const STACK: usize = 32 << 20;

/// CPU use of the thread that reads the counters of 256 CPUs, in percent of one CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct ManyCpus {
    /// With the poll interval of nearly full CPUs.
    pub(super) close_pct: f64,
    pub(super) calm_pct: f64,
}

impl ManyCpus {
    /// Needs the capability to create maps.
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

/// Generates the procfs and sysfs files that are read in addition to the maps.
fn machine(folder: &Folder) -> Result<Procfs> {
    let (proc, sys) = (folder.path().join("proc"), folder.path().join("sys"));
    let cpus = sys.join("devices/system/cpu");
    for made in [&proc, &cpus] {
        fs::create_dir_all(made).context("cannot create a folder")?;
    }
    let mut stat = "cpu 0\n".to_owned();
    for cpu in 0..CPUS {
        writeln!(stat, "cpu{cpu} 1234567 1234 123456 12345678 12345 0 1234 0 0 0")?;
    }
    fs::write(proc.join("stat"), stat).context("cannot write stat")?;
    fs::write(cpus.join("online"), format!("0-{}\n", CPUS - 1)).context("cannot write online")?;
    Ok(Procfs::at(&proc, &sys))
}

/// CPU share of polls at this interval. The clock of the maps is simulated, so the measurement does not wait.
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
