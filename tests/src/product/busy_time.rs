//! [`BusyTime`] measures how busy the CPUs of this machine are.

use std::fs;

/// Fields of the first line of `/proc/stat` that are idle time: `idle` and `iowait`.
const IDLE: [usize; 2] = [3, 4];
/// Fields with time that no other field contains. Time of guests is part of `user` and `nice`.
const ALL: usize = 8;

/// CPU time of the machine at the last reading, in clock ticks.
#[derive(Debug, Default)]
pub(super) struct BusyTime {
    busy: u64,
    total: u64,
}

impl BusyTime {
    /// Busy share of all CPU time since the last call, in percent.
    pub(super) fn percent(&mut self) -> u64 {
        let text = fs::read_to_string("/proc/stat").expect("the CPU times");
        let line = text.lines().next().expect("a line");
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .take(ALL)
            .map(|ticks| ticks.parse().expect("a number"))
            .collect();
        let total: u64 = ticks.iter().sum();
        let busy = total - IDLE.map(|field| ticks[field]).iter().sum::<u64>();
        let before = std::mem::replace(self, Self { busy, total });
        (busy - before.busy) * 100 / (total - before.total).max(1)
    }
}
