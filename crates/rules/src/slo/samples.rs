//! Sets of labels by which Koordinator looks for entries that select the same nodes.
//!
//! An entry's samples have its labels, and for each of its expressions with values one of these, whatever the operator:
//! the first sample has the first of each, the second the second of each, and so on around. Most combinations of values are
//! never tried, so most overlaps of such entries are not found.

use headroom_domain::selector::{LabelSelector, Labels};

/// How many samples are tried for an entry. Koordinator tries as many as there are combinations of values, whatever their
/// number; they repeat themselves after the least common multiple of the numbers of values.
const MOST: usize = 4096;

/// The samples of a selector, and whether these are all.
#[derive(Debug)]
pub(super) struct Samples<'s> {
    selector: &'s LabelSelector,
    next: usize,
    count: usize,
    pub(super) are_all: bool,
}

impl<'s> Samples<'s> {
    /// The samples of a selector.
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
