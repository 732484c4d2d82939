//! Logarithmic histogram buckets of run-queue waits: four to each power of two, so no bucket is wider than a quarter of
//! its start.
#![expect(
    clippy::inline_always,
    clippy::cast_possible_truncation,
    reason = "part of the switch path in the kernel, where a call costs more than the code; 64-bit targets only"
)]

/// Buckets of one histogram. Ticks of 42 bits reach bucket 167; the rest makes the bound easy to check.
pub const BUCKETS: usize = 256;

/// The bucket of a wait of `ticks` (1.024 us each); always below [`BUCKETS`].
#[inline(always)]
pub const fn bucket(ticks: u64) -> usize {
    if ticks < 4 {
        return ticks as usize;
    }
    let log = ticks.ilog2();
    let quarter = (ticks >> (log - 2)) & 3;
    ((log as usize - 1) << 2) + quarter as usize
}

/// The waits of a bucket, in ticks: from the first value, inclusive, to the second, exclusive (saturating at the top).
pub const fn bounds(bucket: usize) -> (u64, u64) {
    if bucket < 4 {
        return (bucket as u64, bucket as u64 + 1);
    }
    let log = bucket / 4 + 1;
    if log > 63 {
        return (u64::MAX, u64::MAX);
    }
    let width = 1_u64 << (log - 2);
    let start = (4 + bucket as u64 % 4) * width;
    (start, start.saturating_add(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_starts_where_the_one_before_ends() {
        for index in 0..251 {
            assert_eq!(bounds(index).1, bounds(index + 1).0, "bucket {index}");
        }
    }

    #[test]
    fn every_wait_lies_within_its_bucket() {
        for power in 0..64 {
            for ticks in [
                1_u64 << power,
                (1 << power) + (1 << power) / 3,
                (1_u64 << power).wrapping_sub(1),
            ] {
                let index = bucket(ticks);
                let (from, to) = bounds(index);
                assert!(index < BUCKETS);
                assert!(
                    from <= ticks && (ticks < to || to == u64::MAX),
                    "{ticks} in {index}: {from}..{to}"
                );
            }
        }
    }

    #[test]
    fn no_bucket_is_wider_than_a_quarter_of_its_start() {
        for index in 4..=251 {
            let (from, to) = bounds(index);
            assert!((to - from) <= from.div_ceil(4), "bucket {index}");
        }
    }

    #[test]
    fn known_waits_fall_into_known_buckets() {
        assert_eq!(
            [0, 1, 3, 4, 7, 8, 9, 10, 16].map(bucket),
            [0, 1, 3, 4, 7, 8, 8, 9, 12]
        );
        assert_eq!(bucket(crate::stamp::TICK_MASK), 163);
        assert_eq!(bucket(u64::MAX), 251);
    }
}
