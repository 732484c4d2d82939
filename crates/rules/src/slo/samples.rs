//! Koordinator's label sets for finding entries that select the same nodes.
//!
//! The samples of an entry have its labels, and one value of each expression with values, whatever the operator: the
//! first sample has the first value of each expression, the second sample the second, and so on, cyclically. Most
//! combinations of values are never tried, so most overlaps of such entries remain undetected.

use headroom_domain::selector::{LabelSelector, Labels};

/// Maximum number of samples for an entry. Koordinator tries as many as there are combinations of values, without
/// limit; they repeat after the least common multiple of the numbers of values.
const MOST: usize = 4096;

/// Samples of a selector, and whether they are complete.
#[derive(Debug)]
pub(super) struct Samples<'s> {
    selector: &'s LabelSelector,
    next: usize,
    count: usize,
    pub(super) are_all: bool,
}

impl<'s> Samples<'s> {
    /// Creates the samples of a selector.
    pub(super) fn new(selector: &'s LabelSelector) -> Self {
        let counts = selector
            .match_expressions
            .iter()
            .map(|expression| expression.values.len());
        let period = counts
            .filter(|&count| count > 0)
            .try_fold(1_usize, |period, count| {
                let period = period.checked_mul(count / greatest_common_divisor(period, count))?;
                (period <= MOST).then_some(period)
            });
        Self {
            selector,
            next: 0,
            count: period.unwrap_or(MOST),
            are_all: period.is_some(),
        }
    }
}

impl Iterator for Samples<'_> {
    type Item = Labels;

    fn next(&mut self) -> Option<Labels> {
        let place = self.next;
        if place == self.count {
            return None;
        }
        self.next += 1;
        let mut labels = self.selector.match_labels.clone();
        for expression in &self.selector.match_expressions {
            let value = place.checked_rem(expression.values.len());
            if let Some(value) = value.and_then(|index| expression.values.get(index)) {
                labels.insert(expression.key.clone(), value.clone());
            }
        }
        Some(labels)
    }
}

fn greatest_common_divisor(mut one: usize, mut other: usize) -> usize {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}
