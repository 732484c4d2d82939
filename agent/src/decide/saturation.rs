//! `Saturation` gathers windows of 8.39 ms into blocks of 134 ms, for `Period`. It measures how often no CPU was idle,
//! and the peak of the busiest block.

use headroom_agent_ebpf::ring::WINDOW_NS;

use crate::{
    metrics::{BLOCK_USE, WINDOW_USE, share},
    sample::{FULL_WINDOW_PERCENT, Windows},
};

/// Windows in a block, as a power of two: 134 ms, longer than the 100 ms period of CPU quotas, so that no block lies
/// within the busy part of one.
const BLOCK_SHIFT: u32 = 4;
const BLOCK: u64 = 1 << BLOCK_SHIFT;

/// Measurements from the windows of one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PeriodWindows {
    /// sigma8: share of windows in which no CPU that pods share was idle, in blocks in which these were nearly all busy,
    /// in ppm.
    pub(super) sigma8_ppm: u32,
    /// The busiest block, in milli-cores.
    pub(super) peak_milli: u64,
}

/// Gathers windows.
///
/// A window without an idle CPU counts only within a block that is nearly all busy: tasks at a quota fill all CPUs for
/// a few milliseconds in every hundred, and wait for the rest of them on idle CPUs. See docs/estimator.md#brakes.
#[derive(Debug, Default)]
pub(super) struct Saturation {
    /// Current block; it continues over the end of a period, and counts in the one in which it ends.
    block: Block,
    /// CPU time that the shared CPUs have in a window.
    shared_ns: u64,
    windows: u64,
    saturated: u64,
    peak_milli: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    number: u64,
    windows: u64,
    busy_ns: u64,
    /// Of that, time of the CPUs that pods share.
    shared_busy_ns: u64,
    /// Windows in which none of those was idle.
    full: u64,
}

impl Saturation {
    /// Records windows of a machine with that many CPUs, `shared_cpus` of them shared; returns the number of windows
    /// without an idle shared CPU.
    pub(super) fn observe(&mut self, windows: &Windows, cpus: u32, shared_cpus: u32) -> u64 {
        let capacity_ns = u64::from(cpus) * WINDOW_NS;
        let shared_ns = u64::from(shared_cpus) * WINDOW_NS;
        if std::mem::replace(&mut self.shared_ns, shared_ns) != shared_ns {
            // A block is of the same CPUs, or left out.
            self.block = Block::default();
        }
        let mut all_full = 0;
        for (number, window) in windows.iter() {
            if number >> BLOCK_SHIFT != self.block.number {
                self.block = Block {
                    number: number >> BLOCK_SHIFT,
                    ..Block::default()
                };
            }
            WINDOW_USE.add(share(window.busy_ns, capacity_ns), 1);
            self.block.windows += 1;
            self.block.busy_ns += window.busy_ns;
            self.block.shared_busy_ns += window.shared_busy_ns;
            let is_full = window.shared_busy_ns * 100 >= shared_ns * FULL_WINDOW_PERCENT;
            self.block.full += u64::from(is_full);
            all_full += u64::from(is_full);
            // Blocks with lost windows stay short and are left out.
            if self.block.windows == BLOCK {
                self.close(capacity_ns);
            }
        }
        all_full
    }

    fn close(&mut self, capacity_ns: u64) {
        let Block {
            number: _,
            windows,
            busy_ns,
            shared_busy_ns,
            full,
        } = self.block;
        BLOCK_USE.add(share(busy_ns, capacity_ns * BLOCK), 1);
        self.windows += windows;
        if shared_busy_ns * 100 >= self.shared_ns * BLOCK * 95 {
            self.saturated += full;
        }
        self.peak_milli = self.peak_milli.max(busy_ns * 1000 / (BLOCK * WINDOW_NS));
    }

    /// Measurements from the blocks that ended since the last call.
    pub(super) fn end_period(&mut self) -> PeriodWindows {
        let sigma8 = (self.saturated * 1_000_000)
            .checked_div(self.windows)
            .unwrap_or(0);
        let shown = PeriodWindows {
            sigma8_ppm: u32::try_from(sigma8).unwrap_or(1_000_000),
            peak_milli: self.peak_milli,
        };
        *self = Self {
            block: self.block,
            shared_ns: self.shared_ns,
            ..Self::default()
        };
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Window;

    /// Windows from number `first` on, each with this share of two CPUs busy, in percent.
    fn windows(first: u64, busy: impl IntoIterator<Item = u64>) -> Windows {
        let window = |percent| Window {
            busy_ns: 2 * WINDOW_NS * percent / 100,
            shared_busy_ns: 2 * WINDOW_NS * percent / 100,
            wait_ns: 0,
        };
        Windows {
            first,
            windows: busy.into_iter().map(window).collect(),
        }
    }

    fn shown(busy: impl IntoIterator<Item = u64>) -> PeriodWindows {
        let mut saturation = Saturation::default();
        saturation.observe(&windows(160, busy), 2, 2);
        saturation.end_period()
    }

    #[test]
    fn a_busy_node_is_saturated_in_the_windows_without_an_idle_cpu() {
        assert_eq!(
            shown([100; 32]),
            PeriodWindows {
                sigma8_ppm: 1_000_000,
                peak_milli: 2000
            }
        );
        let half = [100, 97].into_iter().cycle().take(32);
        assert_eq!(shown(half).sigma8_ppm, 500_000);
        assert_eq!(shown([97; 32]).sigma8_ppm, 0);
    }

    #[test]
    fn bursts_of_a_quota_are_not_saturation() {
        // 50 of every 134 ms all CPUs are busy.
        let burst = (0..64).map(|window| if window % 16 < 6 { 100 } else { 0 });
        assert_eq!(
            shown(burst),
            PeriodWindows {
                sigma8_ppm: 0,
                peak_milli: 750
            }
        );
    }

    #[test]
    fn a_block_counts_once_it_is_whole_even_across_periods() {
        let mut saturation = Saturation::default();
        saturation.observe(&windows(160, [100; 24]), 2, 2);
        assert_eq!(saturation.end_period().sigma8_ppm, 1_000_000);
        saturation.observe(&windows(184, [0; 8]), 2, 2);
        assert_eq!(
            saturation.end_period(),
            PeriodWindows {
                sigma8_ppm: 0,
                peak_milli: 1000
            }
        );
        assert_eq!(saturation.end_period(), PeriodWindows::default());
    }

    #[test]
    fn blocks_with_lost_windows_are_left_out() {
        let mut saturation = Saturation::default();
        saturation.observe(&windows(160, [100; 8]), 2, 2);
        saturation.observe(&windows(176, [0; 16]), 2, 2);
        assert_eq!(saturation.end_period(), PeriodWindows::default());
    }

    #[test]
    fn isolated_cpus_do_not_count_as_idle() {
        // Twelve of sixteen CPUs are for pods, and busy; the others rest.
        let window = Window {
            busy_ns: 12 * WINDOW_NS,
            shared_busy_ns: 12 * WINDOW_NS,
            wait_ns: 0,
        };
        let windows = Windows {
            first: 160,
            windows: vec![window; 32],
        };
        let sigma8 = |shared_cpus| {
            let mut saturation = Saturation::default();
            saturation.observe(&windows, 16, shared_cpus);
            saturation.end_period().sigma8_ppm
        };
        assert_eq!((sigma8(16), sigma8(12)), (0, 1_000_000));
    }

    #[test]
    fn a_block_in_which_the_shared_cpus_changed_is_left_out() {
        let mut saturation = Saturation::default();
        saturation.observe(&windows(160, [100; 8]), 2, 2);
        saturation.observe(&windows(168, [100; 8]), 2, 1);
        assert_eq!(saturation.end_period(), PeriodWindows::default());
    }
}
