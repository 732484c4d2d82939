//! `ProcStatSource` takes CPU counters from `/proc/stat` alone. It replaces `RingSource` where the kernel programs are
//! not available.

use super::{CounterSource, Counts, Origin, SampleError, Tick, Windows, waits::Waits};

/// Busy time in ticks; no windows, no waits, no switches.
#[derive(Debug)]
pub struct ProcStatSource {
    from_ns: u64,
}

impl ProcStatSource {
    /// Counts from `now_ns` (CLOCK_MONOTONIC) on.
    pub const fn new(now_ns: u64) -> Self {
        Self { from_ns: now_ns }
    }
}

impl CounterSource for ProcStatSource {
    fn origin(&self) -> Origin {
        Origin::Procfs
    }

    fn wants_stat(&self) -> bool {
        true
    }

    fn poll(&mut self, tick: &Tick<'_>) -> Result<Counts, SampleError> {
        let from_ns = self.from_ns;
        self.from_ns = tick.now_ns;
        Ok(Counts {
            from_ns,
            until_ns: tick.now_ns,
            busy_ns: tick.stat.map_or(0, |stat| stat.total(&tick.cpus.counted).busy_ns),
            shared_busy_ns: tick.stat.map_or(0, |stat| stat.total(&tick.cpus.shared).busy_ns),
            wait_ns: 0,
            windows: Windows::default(),
            waits: Waits::default(),
            wait_factor: 0,
            switches: 0,
            shared_switches: 0,
            busiest_switches: 0,
            missed_switches: 0,
            lost_windows: 0,
        })
    }

    fn sample_one_in(&mut self, _shift: u32) {}
}
