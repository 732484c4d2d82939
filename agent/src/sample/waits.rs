//! `Waits` counts run-queue waits by length, and computes percentiles that are weighted by waiting time.

use headroom_agent_ebpf::{
    histogram::{BUCKETS, bounds},
    stamp::TICK_SHIFT,
};

/// Sampled waits, or the waits they represent, counted in the kernel's logarithmic buckets (each at most a quarter of
/// its start wide).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    counts: [u64; BUCKETS],
}

impl Default for Waits {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Waits {
    pub const fn new(counts: [u64; BUCKETS]) -> Self {
        Self { counts }
    }

    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Adds the waits of another histogram, of which each stands for `factor`.
    ///
    /// Samples at different rates are comparable only this way: unweighted, the seconds in which one task in 512 was
    /// sampled would vanish next to those with one in 8.
    pub fn add(&mut self, other: &Self, factor: u64) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(count.saturating_mul(factor));
        }
    }

    /// The wait below which `ppm` millionths of all *waiting time* was spent, in microseconds, as the middle of its
    /// bucket; 0 without waits.
    ///
    /// Weighted by time because time spent waiting is the harm: a thousand waits of a microsecond next to one of a
    /// second leave the plain 99th percentile at a microsecond.
    pub fn percentile_us(&self, ppm: u32) -> u64 {
        let weights = self
            .counts
            .iter()
            .enumerate()
            .map(|(bucket, count)| u128::from(*count) * middle_ns(bucket));
        let total: u128 = weights.clone().sum();
        let wanted = total * u128::from(ppm.min(1_000_000));
        let mut sum = 0;
        for (bucket, weight) in weights.enumerate() {
            sum += weight;
            if weight > 0 && sum * 1_000_000 >= wanted {
                return u64::try_from(middle_ns(bucket) / 1_000).unwrap_or(u64::MAX);
            }
        }
        0
    }

    /// Counts by upper bound of the bucket in nanoseconds, ascending, empty buckets left out.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let upper_ns = |bucket| bounds(bucket).1.saturating_mul(1 << TICK_SHIFT);
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(move |(bucket, count)| (upper_ns(bucket), *count))
    }
}

fn middle_ns(bucket: usize) -> u128 {
    let (from, to) = bounds(bucket);
    (u128::from(from) + u128::from(to)) << TICK_SHIFT >> 1
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use headroom_agent_ebpf::{histogram::bucket, stamp::ticks};
    use proptest::prelude::*;

    use super::*;

    fn waits(lengths_ns: &[u64]) -> Waits {
        let mut counts = [0; BUCKETS];
        for length in lengths_ns {
            counts[bucket(ticks(*length))] += 1;
        }
        Waits::new(counts)
    }

    #[test]
    fn no_waits_have_no_percentile() {
        assert_eq!(Waits::default().percentile_us(990_000), 0);
    }

    #[test]
    fn percentile_is_weighted_by_waiting_time() {
        let mut lengths = vec![1_024; 1_000];
        lengths.push(1_000_000_000);
        let p50 = waits(&lengths).percentile_us(500_000);
        assert!(
            (875_000..=1_125_000).contains(&p50),
            "one long wait outweighs a thousand short ones: {p50}"
        );
    }

    #[test]
    fn sums_of_histograms_are_histograms_of_sums() {
        let mut sum = waits(&[5_000, 80_000]);
        sum.add(&waits(&[80_000, 9_000_000]), 1);
        assert_eq!(sum, waits(&[5_000, 80_000, 80_000, 9_000_000]));
        assert_eq!(sum.count(), 4);
        assert_eq!(sum.buckets().map(|(_, count)| count).sum::<u64>(), 4);
    }

    #[test]
    fn waits_sampled_at_two_rates_weigh_what_they_stand_for() {
        // One task in 8 is sampled for a while, and one in 512 after that: 0.8 s of short waits and 0.46 s of long ones.
        let (short, long) = (waits(&[100_000; 1_000]), waits(&[900_000]));
        let p99 = |of_short, of_long| {
            let mut sum = Waits::default();
            sum.add(&short, of_short);
            sum.add(&long, of_long);
            sum.percentile_us(990_000)
        };
        let [of_short, of_long] = [&short, &long].map(|waits| waits.percentile_us(990_000));
        assert_eq!(
            [p99(8, 512), p99(1, 1), p99(512, 8)],
            [of_long, of_short, of_short]
        );
    }

    proptest! {
        /// Against hdrhistogram, which counts each wait as many times as it is long.
        #[test]
        fn percentiles_agree_with_hdrhistogram_within_a_bucket(
            lengths in prop::collection::vec(2_000_u64..100_000_000, 1..200),
            ppm in 1_u32..=1_000_000,
        ) {
            let mut oracle = Histogram::<u64>::new(5).unwrap();
            for length in &lengths {
                oracle.record_n(*length, *length).unwrap();
            }
            // Weights are rounded to the middles of buckets up to a quarter wide, so the share is off by as much.
            let share = f64::from(ppm) / 1e6;
            let at = |share: f64| oracle.value_at_quantile(share.clamp(0.0, 1.0));
            let (lowest, highest) = (at(share - 0.15) * 85 / 100, at(share + 0.15) * 115 / 100);
            let found = waits(&lengths).percentile_us(ppm) * 1_000;
            prop_assert!((lowest..=highest).contains(&found), "{} not within {}..{}", found, lowest, highest);
        }
    }
}
