//! `Pace` decides at which turns of the sampling thread CPU counters are read: at every turn while waits matter and after
//! a reading that failed, and otherwise once a second.

use std::time::Duration;

use crate::sample::{
    Poll,
    clock::{Clocks, nanoseconds},
};

/// When CPU counters are due.
#[derive(Debug)]
pub(super) struct Pace {
    second_ns: u64,
    /// The second since boot in which they were last read.
    second: Option<u64>,
    is_close: bool,
}

impl Pace {
    /// Due at once, and then as long as nothing matters at the first turn of each `second`: frames end with one.
    pub(super) fn new(second: Duration) -> Self {
        Self {
            second_ns: nanoseconds(second).max(1),
            second: None,
            is_close: false,
        }
    }

    /// Are they due at this turn?
    pub(super) fn is_due(&self, at: Clocks) -> bool {
        self.is_close || self.second != Some(at.boottime_ns / self.second_ns)
    }

    /// Records what the reading of a turn came to, and whether waits matter: CPUs are nearly full, or were.
    pub(super) fn record(&mut self, at: Clocks, poll: Option<&Poll>, do_waits_matter: bool) {
        self.second = Some(at.boottime_ns / self.second_ns);
        self.is_close = do_waits_matter || !poll.is_some_and(Poll::covers_time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Counts, Origin};

    const QUARTER: Duration = Duration::from_millis(250);

    /// A poll at the end of that quarter of a second since boot.
    fn poll(turn: u64) -> Poll {
        let now_ns = turn * nanoseconds(QUARTER);
        Poll {
            at: Clocks {
                monotonic_ns: now_ns,
                boottime_ns: now_ns,
            },
            origin: Origin::Ebpf,
            online: 4,
            cpus: 4,
            shared_cpus: 4,
            counts: Counts {
                from_ns: now_ns - nanoseconds(QUARTER),
                until_ns: now_ns,
                ..Counts::default()
            },
            stat: None,
        }
    }

    /// The turns, of eleven in quarters of a second, at which counters are due. What each reading came to is told by
    /// `outcome`.
    fn due(second: Duration, outcome: impl Fn(u64) -> (Option<Poll>, bool)) -> Vec<u64> {
        let mut pace = Pace::new(second);
        let mut due = Vec::new();
        for turn in 5..=15 {
            let at = poll(turn).at;
            if pace.is_due(at) {
                let (poll, do_waits_matter) = outcome(turn);
                pace.record(at, poll.as_ref(), do_waits_matter);
                due.push(turn);
            }
        }
        due
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_calm_node_is_read_at_whole_seconds() {
        let calm = |turn| (Some(poll(turn)), false);
        assert_eq!(due(SECOND, calm), [5, 8, 12]);
    }

    #[test]
    fn a_second_of_the_demo_is_a_turn() {
        let calm = |turn| (Some(poll(turn)), false);
        let all: Vec<_> = (5..=15).collect();
        assert_eq!(due(QUARTER, calm), all);
    }

    #[test]
    fn every_turn_counts_while_waits_matter() {
        let fills_up = |turn| (Some(poll(turn)), (8..=9).contains(&turn));
        assert_eq!(due(SECOND, fills_up), [5, 8, 9, 10, 12]);
    }

    #[test]
    fn what_could_not_be_read_is_tried_again_at_the_next_turn() {
        let fails = |turn| ((turn > 9).then(|| poll(turn)), false);
        assert_eq!(due(SECOND, fails), [5, 6, 7, 8, 9, 10, 12]);
        let is_torn = |turn| {
            let mut torn = poll(turn);
            torn.counts.until_ns = torn.counts.from_ns;
            (Some(if turn == 8 { torn } else { poll(turn) }), false)
        };
        assert_eq!(due(SECOND, is_torn), [5, 8, 9, 12]);
    }
}
