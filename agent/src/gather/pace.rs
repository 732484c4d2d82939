//! `Pace` decides at which samples CPU counters are read: at every sample while waits matter and after a failed
//! reading, otherwise once a second.

use std::time::Duration;

use crate::sample::clock::{Clocks, nanoseconds};

/// Schedule of the readings of CPU counters.
#[derive(Debug)]
pub(super) struct Pace {
    second_ns: u64,
    /// The second since boot in which they were last read.
    second: Option<u64>,
    is_close: bool,
}

impl Pace {
    /// Due at once, and then, while waits do not matter, at the first sample of each `second`: frames end with one.
    pub(super) fn new(second: Duration) -> Self {
        Self {
            second_ns: nanoseconds(second).max(1),
            second: None,
            is_close: false,
        }
    }

    /// True if they are due at this sample.
    pub(super) fn is_due(&self, at: Clocks) -> bool {
        self.is_close || self.second != Some(at.boottime_ns / self.second_ns)
    }

    /// Records a due reading: its success, and if waits matter because CPUs are or were nearly full.
    pub(super) const fn record(&mut self, at: Clocks, is_read: bool, do_waits_matter: bool) {
        self.second = Some(at.boottime_ns / self.second_ns);
        self.is_close = do_waits_matter || !is_read;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const QUARTER: Duration = Duration::from_millis(250);

    /// Samples, of eleven in quarters of a second, at which counters are due; `outcome` returns for each reading its
    /// success, and if waits matter.
    fn due(second: Duration, outcome: impl Fn(u64) -> (bool, bool)) -> Vec<u64> {
        let mut pace = Pace::new(second);
        let mut due = Vec::new();
        for turn in 5..=15 {
            let now_ns = turn * nanoseconds(QUARTER);
            let at = Clocks {
                monotonic_ns: now_ns,
                boottime_ns: now_ns,
            };
            if pace.is_due(at) {
                let (is_read, do_waits_matter) = outcome(turn);
                pace.record(at, is_read, do_waits_matter);
                due.push(turn);
            }
        }
        due
    }

    #[test]
    fn a_calm_node_is_read_at_whole_seconds() {
        assert_eq!(due(SECOND, |_| (true, false)), [5, 8, 12]);
    }

    #[test]
    fn a_second_of_the_demo_is_a_turn() {
        let all: Vec<_> = (5..=15).collect();
        assert_eq!(due(QUARTER, |_| (true, false)), all);
    }

    #[test]
    fn every_turn_counts_while_waits_matter() {
        let fills_up = |turn| (true, (8..=9).contains(&turn));
        assert_eq!(due(SECOND, fills_up), [5, 8, 9, 10, 12]);
    }

    #[test]
    fn what_could_not_be_read_is_tried_again_at_the_next_turn() {
        assert_eq!(due(SECOND, |turn| (turn > 9, false)), [5, 6, 7, 8, 9, 10, 12]);
        assert_eq!(due(SECOND, |turn| (turn != 8, false)), [5, 8, 9, 12]);
    }
}
