//! A load process: uses a given share of each CPU it is asked to use, and holds some memory.

use std::{
    io::BufRead as _,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

/// Busy and idle alternate within this period.
const PERIOD: Duration = Duration::from_millis(40);

/// What the load uses.
#[derive(Debug, Clone, Args)]
pub struct Load {
    /// Share of one CPU that each thread uses, in thousandths (1 to 1000).
    #[arg(long, value_name = "MILLI")]
    pub milli: u32,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Memory to hold, in MiB.
    #[arg(long, default_value_t = 0)]
    pub memory_mib: usize,
}

impl Load {
    /// Runs until standard input ends, so also when whoever started the process dies.
    ///
    /// Nothing is used before a line comes, so that the process can be put into its cgroup first.
    ///
    /// # Errors
    /// If the share is out of range, or standard input cannot be read or ends before that line.
    pub fn run(&self) -> Result<()> {
        ensure!(
            (1..=1000).contains(&self.milli),
            "--milli {} is outside 1..1000",
            self.milli
        );
        let mut input = std::io::stdin().lock();
        let read = input
            .read_line(&mut String::new())
            .context("waiting for the word to go")?;
        ensure!(read > 0, "nobody said go");
        // Written, not only reserved: untouched pages cost nothing and would not be measured.
        let held = vec![1_u8; self.memory_mib << 20];
        for _ in 0..self.threads {
            let milli = self.milli;
            thread::spawn(move || burn(milli));
        }
        std::io::copy(&mut input, &mut std::io::sink()).context("waiting for the end")?;
        drop(held);
        Ok(())
    }
}

/// Uses `milli` thousandths of a CPU, for ever.
fn burn(milli: u32) {
    let busy = PERIOD * milli / 1000;
    loop {
        let began = Instant::now();
        while began.elapsed() < busy {
            std::hint::spin_loop();
        }
        let rest = PERIOD.saturating_sub(began.elapsed());
        if !rest.is_zero() {
            thread::sleep(rest);
        }
    }
}
