//! The load that `headroom-load` runs: each thread uses a given share of a CPU, and the process holds memory.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher as _,
    io, thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::await_go;

/// Busy and idle alternate within this period.
const PERIOD: Duration = Duration::from_millis(40);
/// Periods after which a load that rests at times decides anew.
const SPELL: u64 = 10;

/// What the load uses.
#[derive(Debug, Clone, Args)]
pub struct Load {
    /// Share of one CPU that each thread uses while it does not rest, in thousandths (1 to 1000).
    #[arg(long, value_name = "MILLI")]
    pub milli: u32,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Share of the time in which a thread rests, in percent (0 to 99); it comes in spells of 0.4 s, at random.
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    pub rest_percent: u64,
    /// Memory to hold, in MiB.
    #[arg(long, default_value_t = 0)]
    pub memory_mib: usize,
}

impl Load {
    /// The arguments of the process that is this load.
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

    /// Runs until standard input ends, so also when whoever started the process dies.
    ///
    /// Nothing is used before a line comes, so that the process can be put into its cgroup first.
    ///
    /// # Errors
    /// If a share is out of range, or standard input cannot be read or ends before that line.
    pub fn run(&self) -> Result<()> {
        ensure!(
            (1..=1000).contains(&self.milli),
            "--milli {} is outside 1..1000",
            self.milli
        );
        ensure!(
            self.rest_percent < 100,
            "--rest-percent {} is outside 0..99",
            self.rest_percent
        );
        await_go()?;
        // Written, not only reserved: untouched pages cost nothing and would not be measured.
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

/// Uses `milli` thousandths of a CPU when it does not rest, for ever.
fn burn(milli: u32, rest_percent: u64) {
    let busy = PERIOD * milli / 1000;
    let chance = RandomState::new();
    for period in 0_u64.. {
        let began = Instant::now();
        let rests = chance.hash_one(period / SPELL) % 100 < rest_percent;
        while !rests && began.elapsed() < busy {
            std::hint::spin_loop();
        }
        let rest = PERIOD.saturating_sub(began.elapsed());
        if !rest.is_zero() {
            thread::sleep(rest);
        }
    }
}
