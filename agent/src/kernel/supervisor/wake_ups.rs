//! `WakeUps` decides when the wake-up programs are attached: while CPUs are nearly full, and for some minutes after. On a
//! calmer node no decision uses waiting times, and measuring them would make each wake-up slower.

use std::time::Duration;

use headroom_agent_ebpf::ring::WINDOW_NS;

use crate::sample::{FULL_WINDOW_PERCENT, Poll, clock::nanoseconds};

/// Use of the CPUs that pods share, in percent of a poll, from which waiting times are used. It is where the CPU brake without
/// kernel programs begins. Demand includes waits from 97 %.
const BUSY_PERCENT: u64 = 85;

/// Decides at each poll. The wake-up hooks are attached at the start, as the node's load is not known yet.
#[derive(Debug)]
pub(crate) struct WakeUps {
    calm_for_ns: u64,
    /// End of the last busy poll, or of the first poll.
    busy_ns: Option<u64>,
    are_needed: bool,
}

impl WakeUps {
    /// `calm_for` is the time without a busy poll after which the hooks are detached.
    pub(crate) fn new(calm_for: Duration) -> Self {
        Self {
            calm_for_ns: nanoseconds(calm_for),
            busy_ns: None,
            are_needed: true,
        }
    }

    /// Returns true if the hooks should be attached.
    pub(crate) const fn are_needed(&self) -> bool {
        self.are_needed
    }

    /// Time without a busy poll after which the hooks are detached.
    pub(crate) const fn calm_for(&self) -> Duration {
        Duration::from_nanos(self.calm_for_ns)
    }

    /// Records a poll; returns true if [`Self::are_needed`] changes with it.
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

/// Returns true if the CPUs that pods share were nearly full during the poll or one of its windows.
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

    /// Poll `number` with the shared CPUs busy to `percent` on average and to `highest` percent in one window.
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
                // CPUs that pods do not share are always full.
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

    /// Times in seconds at which the answer changes, for stretches of (seconds, average percent, highest percent).
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
    fn hooks_stay_attached_on_calm_cpus_for_a_while() {
        assert_eq!(changes(&[(400, 84, 97)]), [300]);
    }

    #[test]
    fn a_busy_poll_or_a_full_window_attaches_the_hooks_at_once_for_the_whole_time() {
        for busy in [(85, 85), (10, 98)] {
            let stretches = [(310, 0, 0), (1, busy.0, busy.1), (400, 0, 0)];
            // The last busy poll ends at second 311.
            assert_eq!(changes(&stretches), [300, 310, 610], "{busy:?}");
        }
    }

    #[test]
    fn full_windows_now_and_then_keep_them_attached() {
        let stretches: Vec<_> = (0..10).flat_map(|_| [(1, 10, 98), (298, 10, 10)]).collect();
        assert_eq!(changes(&stretches), Vec::<u64>::new());
    }

    #[test]
    fn a_poll_without_counts_is_calm() {
        let mut empty = poll(0, 0, 0);
        empty.counts = Counts::default();
        assert!(!is_busy(&empty));
    }
}
