//! Histogram metrics of run-queue waits and of CPU use: the distributions behind the percentiles. `kubectl headroom
//! agent histogram` shows the same distributions.

use headroom_kit::metric::{Cells, CountedHistogram, Unit};

headroom_kit::metrics! {
    /// Waits for a CPU.
    ///
    pub static RUNQ_WAIT: CountedHistogram = CountedHistogram::new(
        "headroom_agent_runq_wait_seconds",
        Unit::Seconds,
        "Waits of sampled tasks for a CPU, one in 8 unless the agent sheds; the sum counts each with \
         the end of its bucket.",
        &[
            0.000_016_384,
            0.000_065_536,
            0.000_262_144,
            0.001_048_576,
            0.004_194_304,
            0.008_388_608,
            0.016_777_216,
            0.033_554_432,
            0.067_108_864,
            0.134_217_728,
            0.268_435_456,
            1.073_741_824,
        ],
        &RUNQ_WAIT_CELLS,
    );

    pub static WINDOW_USE: CountedHistogram = CountedHistogram::new(
        "headroom_agent_cpu_window_use_ratio",
        Unit::Ratio,
        "Busy time of all CPUs in windows of 8.39 ms, as a share of their time.",
        &SHARES,
        &WINDOW_USE_CELLS,
    );

    pub static BLOCK_USE: CountedHistogram = CountedHistogram::new(
        "headroom_agent_cpu_block_use_ratio",
        Unit::Ratio,
        "Busy time of all CPUs in blocks of 134 ms, as a share of their time.",
        &SHARES,
        &BLOCK_USE_CELLS,
    );
}
static RUNQ_WAIT_CELLS: Cells = Cells::new();

static WINDOW_USE_CELLS: Cells = Cells::new();

static BLOCK_USE_CELLS: Cells = Cells::new();

/// Bounds of shares: 0.95 and 0.98 are those from which a block and a window count as saturated.
const SHARES: [f64; 12] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98];

/// Converts nanoseconds to seconds.
#[expect(clippy::cast_precision_loss, reason = "exact up to 104 days")]
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// `part` / `whole`; 0 without a whole.
#[expect(clippy::cast_precision_loss, reason = "a share for a bucket")]
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use headroom_agent_ebpf::{
        histogram::{BUCKETS, bounds},
        stamp::TICK_SHIFT,
    };

    use super::*;

    #[test]
    fn no_bucket_of_the_kernel_is_split() {
        let ends: Vec<_> = (0..BUCKETS)
            .map(|bucket| seconds(bounds(bucket).1.saturating_mul(1 << TICK_SHIFT)))
            .collect();
        for bound in RUNQ_WAIT.metric().buckets {
            assert!(ends.contains(bound), "{bound}");
        }
    }
}
