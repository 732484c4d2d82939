//! `Every` is an interval timer: the threads of `gather` query it at every sample for due readings.

use std::time::Duration;

use super::POLL;
use crate::sample::clock::nanoseconds;

/// Time of the next reading.
#[derive(Debug)]
pub(super) struct Every {
    interval_ns: u64,
    due_ns: u64,
}

impl Every {
    /// Due at once, and then this often.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            // A poll may come a little early; half a poll makes sure that it is not taken for the one before.
            interval_ns: nanoseconds(interval.saturating_sub(POLL / 2)),
            due_ns: 0,
        }
    }

    /// Is it due? Then it is not until the interval has passed.
    pub(super) const fn is_due(&mut self, monotonic_ns: u64) -> bool {
        let is_due = monotonic_ns >= self.due_ns;
        if is_due {
            self.due_ns = monotonic_ns.saturating_add(self.interval_ns);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_that_comes_a_little_early_is_not_taken_for_the_one_before() {
        let mut every = Every::new(Duration::from_secs(1));
        let milliseconds = [3, 250, 751, 990, 1_240, 1_879, 2_001];
        let due = milliseconds.map(|milliseconds| every.is_due(milliseconds * 1_000_000));
        assert_eq!(due, [true, false, false, true, false, true, false]);
    }
}
