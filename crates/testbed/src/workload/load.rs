//! The load that `headroom-load` runs: each thread uses a given share of a CPU, and the process holds memory.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher as _,
    io, thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::wait_for_start;

/// Period with one busy and one idle part.
const PERIOD: Duration = Duration::from_millis(40);
/// Number of periods between two random decisions to rest.
const PERIODS_PER_DECISION: u64 = 10;

/// Resource use of a load.
#[derive(Debug, Clone, Args)]
pub struct Load {
    /// CPU use of each thread while it does not rest, in thousandths of one CPU (1 to 1000).
    #[arg(long, value_name = "MILLI")]
    pub milli: u32,
    /// Number of threads of the process.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Share of time in which a thread rests, in percent (0 to 99). Rests are random periods of 0.4 s.
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    pub rest_percent: u64,
    /// Memory to hold, in MiB.
    #[arg(long, default_value_t = 0)]
    pub memory_mib: usize,
}

impl Load {
    /// Command-line arguments of `headroom-load` for this load.
    pub fn arguments(&self) -> Vec<String> {
        let Self {
            milli,
            threads,
            rest_percent,
            memory_mib,
        } = self;
        vec![
            format!("--milli={milli}"),
            format!("--threads={threads}"),
            format!("--rest-percent={rest_percent}"),
            format!("--memory-mib={memory_mib}"),
        ]
    }

    /// Runs until standard input ends, which also happens if the parent dies.
    ///
    /// Uses no CPU or memory before the first line on standard input, so that the parent can move the process into its cgroup.
    ///
    /// # Errors
    /// If a share is out of range, or standard input cannot be read or ends before that line.
    pub fn run(&self) -> Result<()> {
        ensure!(
            (1..=1000).contains(&self.milli),
            "--milli {} is not between 1 and 1000",
            self.milli
        );
        ensure!(
            self.rest_percent < 100,
            "--rest-percent {} is not between 0 and 99",
            self.rest_percent
        );
        wait_for_start()?;
        // Writing allocates the pages: untouched memory would not be measured.
        let held = vec![1_u8; self.memory_mib << 20];
        for _ in 0..self.threads {
            let (milli, rest_percent) = (self.milli, self.rest_percent);
            thread::spawn(move || burn(milli, rest_percent));
        }
        io::copy(&mut io::stdin().lock(), &mut io::sink()).context("waiting for the end")?;
        drop(held);
        Ok(())
    }
}

/// Uses `milli` thousandths of a CPU while it does not rest. Never returns.
fn burn(milli: u32, rest_percent: u64) {
    let busy = PERIOD * milli / 1000;
    let chance = RandomState::new();
    for period in 0_u64.. {
        let began = Instant::now();
        let rests = chance.hash_one(period / PERIODS_PER_DECISION) % 100 < rest_percent;
        while !rests && began.elapsed() < busy {
            std::hint::spin_loop();
        }
        let rest = PERIOD.saturating_sub(began.elapsed());
        if !rest.is_zero() {
            thread::sleep(rest);
        }
    }
}
