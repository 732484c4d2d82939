//! Percentiles, sorted lists and counts as floating-point numbers.

/// The nearest-rank percentile of an ascending list; 0 if the list is empty.
pub(crate) fn percentile(ascending: &[f64], percent: usize) -> f64 {
    let rank = (ascending.len() * percent).div_ceil(100).max(1);
    ascending.get(rank - 1).copied().unwrap_or(0.0)
}

pub(crate) fn ascending(figures: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
pub(crate) fn as_float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let list: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&list, 50), percentile(&list, 99)), (100.0, 198.0));
        assert_eq!((percentile(&[7.0], 99), percentile(&[], 50)), (7.0, 0.0));
    }
}
