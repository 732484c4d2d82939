//! `WakeUps` decides when the wake-up programs are attached: while CPUs are nearly full, and for some minutes after. On
//! a calmer node no decision uses the tasks' waiting times, and each wake-up would pay for them.

use std::time::Duration;

use headroom_agent_ebpf::ring::WINDOW_NS;

use crate::sample::{FULL_WINDOW_PERCENT, Poll, clock::nanoseconds};

/// Share of the CPUs that pods share, in percent of a poll, from which on waits matter: what a CPU brake without the programs
/// begins to go by. Demand counts waits from 97 % on.
const BUSY_PERCENT: u64 = 85;

/// Decides it poll by poll. At the start they are listened to: nobody knows yet what the node does.
#[derive(Debug)]
pub(crate) struct WakeUps {
    calm_for_ns: u64,
    /// The end of the last busy poll, or the first poll.
    busy_ns: Option<u64>,
    are_needed: bool,
}

impl WakeUps {
    /// They rest after so long without a busy poll.
    pub(crate) fn new(calm_for: Duration) -> Self {
        Self {
            calm_for_ns: nanoseconds(calm_for),
            busy_ns: None,
            are_needed: true,
        }
    }

    /// Are they to be listened to?
    pub(crate) const fn are_needed(&self) -> bool {
        self.are_needed
    }

    /// How long a node is calm before they are no longer listened to.
    pub(crate) const fn calm_for(&self) -> Duration {
        Duration::from_nanos(self.calm_for_ns)
    }

    /// Records a poll; true if the answer changes with it.
    pub(crate) fn observe(&mut self, poll: &Poll) -> bool {
        let now_ns = poll.counts.until_ns;
        let busy_ns = *self.busy_ns.get_or_insert(now_ns);
        let before = self.are_needed;
        if is_busy(poll) {
            self.busy_ns = Some(now_ns);
            self.are_needed = true;
        } else if now_ns.saturating_sub(busy_ns) >= self.calm_for_ns {
            self.are_needed = false;
        }
        before != self.are_needed
    }
}

/// Were the CPUs that pods share nearly full, for the poll or for one of its windows?
fn is_busy(poll: &Poll) -> bool {
    let counts = &poll.counts;
    let shared = u128::from(poll.shared_cpus);
    let reaches = |busy_ns: u64, length_ns: u64, percent: u64| {
        u128::from(busy_ns) * 100 >= shared * u128::from(length_ns) * u128::from(percent)
    };
    let length_ns = counts.until_ns.saturating_sub(counts.from_ns);
    let mut windows = counts.windows.windows.iter();
    length_ns > 0 && reaches(counts.shared_busy_ns, length_ns, BUSY_PERCENT)
        || windows.any(|window| reaches(window.shared_busy_ns, WINDOW_NS, FULL_WINDOW_PERCENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Counts, Origin, Window, Windows, clock::Clocks};

    const QUARTER_NS: u64 = 250_000_000;
    const CPUS: u32 = 4;
    const CALM_FOR: Duration = Duration::from_secs(300);

    /// The poll of this number, with so many percent of the shared CPUs busy, and most in one window.
    fn poll(number: u64, percent: u64, highest: u64) -> Poll {
        let of = |length_ns: u64, percent: u64| (u64::from(CPUS) * length_ns * percent).div_ceil(100);
        Poll {
            at: Clocks::default(),
            origin: Origin::Ebpf,
            online: CPUS + 2,
            cpus: CPUS + 2,
            shared_cpus: CPUS,
            counts: Counts {
                from_ns: number * QUARTER_NS,
                until_ns: (number + 1) * QUARTER_NS,
                // Those that pods do not share are full all the time.
                busy_ns: of(QUARTER_NS, percent) + 2 * QUARTER_NS,
                shared_busy_ns: of(QUARTER_NS, percent),
                windows: Windows {
                    first: 0,
                    windows: vec![
                        Window::default(),
                        Window {
                            busy_ns: of(WINDOW_NS, highest),
                            shared_busy_ns: of(WINDOW_NS, highest),
                            wait_ns: 0,
                        },
                    ],
                },
                ..Counts::default()
            },
            stat: None,
        }
    }

    /// After how many seconds the answer changes, of so many seconds of such polls each.
    fn changes(stretches: &[(u64, u64, u64)]) -> Vec<u64> {
        let mut wake_ups = WakeUps::new(CALM_FOR);
        let polls = stretches
            .iter()
            .flat_map(|&(seconds, percent, highest)| (0..seconds * 4).map(move |_| (percent, highest)));
        let changes = (0..)
            .zip(polls)
            .filter(|&(number, (percent, highest))| wake_ups.observe(&poll(number, percent, highest)));
        changes.map(|(number, _)| number / 4).collect()
    }

    #[test]
    fn calm_cpus_are_listened_to_for_a_while() {
        assert_eq!(changes(&[(400, 84, 97)]), [300]);
    }

    #[test]
    fn a_busy_poll_or_a_full_window_has_them_listened_to_at_once_and_for_as_long_again() {
        for busy in [(85, 85), (10, 98)] {
            let stretches = [(310, 0, 0), (1, busy.0, busy.1), (400, 0, 0)];
            // The last busy poll ends with the second 311.
            assert_eq!(changes(&stretches), [300, 310, 610], "{busy:?}");
        }
    }

    #[test]
    fn full_windows_now_and_then_keep_them_attached() {
        let stretches: Vec<_> = (0..10).flat_map(|_| [(1, 10, 98), (298, 10, 10)]).collect();
        assert_eq!(changes(&stretches), Vec::<u64>::new());
    }

    #[test]
    fn a_poll_that_nothing_could_be_told_of_yet_is_calm() {
        let mut empty = poll(0, 0, 0);
        empty.counts = Counts::default();
        assert!(!is_busy(&empty));
    }
}
