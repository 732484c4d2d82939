//! 99th percentile of the samples of a frame.

/// Nearest-rank 99th percentile: element number ceil(0.99 n) of the sorted samples, counted from 1; 0 if empty.
pub fn nearest_rank_p99(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * 99).div_ceil(100);
    rank.checked_sub(1)
        .and_then(|index| sorted.get(index))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_is_by_nearest_rank() {
        let samples: Vec<u64> = (1..=300).rev().collect();
        assert_eq!(nearest_rank_p99(&samples), 297);
        assert_eq!(nearest_rank_p99(&[7, 3, 9, 1]), 9);
        assert_eq!(nearest_rank_p99(&[]), 0);
    }
}
