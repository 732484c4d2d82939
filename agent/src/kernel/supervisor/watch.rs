//! `Watch` detects that the kernel programs have stopped counting, for example because another process detached them or
//! replaced their maps, or that their counts cannot be read. It compares the counts with `/proc/stat`.

use std::time::Duration;

use headroom_agent_ebpf::ring::WINDOW_NS;

use crate::sample::{Poll, clock::nanoseconds};

/// Time without a single switch after which the programs count as lost: the agent's own polls cause switches.
const SILENT_FOR: Duration = Duration::from_secs(10);
/// Number of polls that fail in a row, over ten seconds, after which the programs count as lost.
const MOST_FAILURES: u32 = 40;
/// Time over which busy time is compared with `/proc/stat`.
const COMPARED_OVER: Duration = Duration::from_secs(60);
/// Difference, in percent of all CPUs, below which the comparison is noise: `/proc/stat` counts ticks, and some virtual
/// machines hide switches.
const NOISE_PERCENT: u64 = 5;

/// Compares the programs' counts with `/proc/stat`.
#[derive(Debug)]
pub struct Watch {
    silent_for: Duration,
    compared_over: Duration,
    last_switch_ns: Option<u64>,
    busy_ns: u64,
    stat_busy_ns: u64,
    stat_elapsed_ns: u64,
    /// Polls in a row that failed.
    failures: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Self::new(SILENT_FOR, COMPARED_OVER)
    }
}

impl Watch {
    /// `silent_for` is the limit without a switch, `compared_over` the time over which busy time is compared.
    pub const fn new(silent_for: Duration, compared_over: Duration) -> Self {
        Self {
            silent_for,
            compared_over,
            last_switch_ns: None,
            busy_ns: 0,
            stat_busy_ns: 0,
            stat_elapsed_ns: 0,
            failures: 0,
        }
    }

    /// Forgets all polls and keeps the limits.
    pub(super) const fn reset(&mut self) {
        *self = Self::new(self.silent_for, self.compared_over);
    }

    /// Records a poll that failed; returns the reason after [`MOST_FAILURES`] in a row.
    pub(super) fn observe_failure(&mut self) -> Option<String> {
        self.failures = self.failures.saturating_add(1);
        (self.failures >= MOST_FAILURES).then(|| {
            format!(
                "CPU counters could not be read {MOST_FAILURES} times in a row; see the log for the error, and restart the agent"
            )
        })
    }

    /// Records a poll; returns the reason if the programs seem to have stopped counting.
    pub(super) fn observe(&mut self, poll: &Poll) -> Option<String> {
        self.failures = 0;
        let counts = &poll.counts;
        let last_ns = *self.last_switch_ns.get_or_insert(counts.from_ns);
        if counts.switches > 0 {
            self.last_switch_ns = Some(counts.until_ns);
        } else if counts.until_ns.saturating_sub(last_ns).saturating_add(WINDOW_NS)
            >= nanoseconds(self.silent_for)
        {
            // Counts end with a window, so ten seconds of them are up to one window shorter.
            let seconds = self.silent_for.as_secs();
            return Some(format!(
                "the kernel programs counted no context switch for {seconds} s"
            ));
        }
        self.busy_ns = self.busy_ns.saturating_add(counts.busy_ns);
        let stat = poll.stat?;
        // The programs count interrupts of idle CPUs, and delays of a hypervisor's wake-up, as idle.
        let unseen_ns = stat.time.irq_ns.saturating_add(stat.time.steal_ns);
        let tasks_ns = stat.time.busy_ns.saturating_sub(unseen_ns);
        self.stat_busy_ns = self.stat_busy_ns.saturating_add(tasks_ns);
        self.stat_elapsed_ns = self.stat_elapsed_ns.saturating_add(stat.elapsed_ns);
        if self.stat_elapsed_ns < nanoseconds(self.compared_over) {
            return None;
        }
        let (busy, by_stat) = (u128::from(self.busy_ns), u128::from(self.stat_busy_ns));
        let all = u128::from(self.stat_elapsed_ns) * u128::from(poll.cpus);
        (self.busy_ns, self.stat_busy_ns, self.stat_elapsed_ns) = (0, 0, 0);
        // A tenth less, and more than noise. Counting more than `/proc/stat` is never a reason: that counts ticks.
        let is_less = busy * 10 < by_stat * 9;
        let is_much = by_stat.saturating_sub(busy) * 100 >= all * u128::from(NOISE_PERCENT);
        (is_less && is_much).then(|| {
            format!(
                "the kernel programs counted {} ms of busy CPU time, and /proc/stat {} ms",
                busy / 1_000_000,
                by_stat / 1_000_000
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Counts, Origin, StatSpan, clock::Clocks, procfs::CpuTime};

    const SECOND: u64 = 1_000_000_000;

    /// A poll of one second with this busy time, in percent of one of two CPUs, by the programs and by `/proc/stat`.
    fn second(number: u64, busy: u64, by_stat: u64, switches: u64) -> Poll {
        with_interrupts(number, busy, by_stat, switches, 0)
    }

    fn with_interrupts(number: u64, busy: u64, by_stat: u64, switches: u64, irq: u64) -> Poll {
        Poll {
            at: Clocks::default(),
            origin: Origin::Ebpf,
            online: 2,
            cpus: 2,
            shared_cpus: 2,
            counts: Counts {
                from_ns: number * SECOND,
                until_ns: (number + 1) * SECOND,
                busy_ns: busy * SECOND / 100,
                switches,
                ..Counts::default()
            },
            stat: Some(StatSpan {
                elapsed_ns: SECOND,
                time: CpuTime {
                    busy_ns: by_stat * SECOND / 100,
                    irq_ns: irq * SECOND / 100,
                    ..CpuTime::default()
                },
                shared_busy_ns: 0,
            }),
        }
    }

    fn first_reason(busy: u64, by_stat: u64, switches: u64) -> Option<(u64, String)> {
        let mut watch = Watch::default();
        (0..200).find_map(|number| {
            Some((
                number + 1,
                watch.observe(&second(number, busy, by_stat, switches))?,
            ))
        })
    }

    #[test]
    fn programs_without_a_switch_are_detected_after_ten_seconds() {
        let (after, why) = first_reason(0, 1, 0).unwrap();
        assert_eq!(after, 10);
        assert!(why.contains("no context switch for 10 s"), "{why}");
    }

    #[test]
    fn programs_are_lost_after_failed_polls_for_ten_seconds_without_a_success() {
        let mut watch = Watch::default();
        assert!((0..39).all(|_| watch.observe_failure().is_none()));
        assert_eq!(watch.observe(&second(0, 50, 50, 50)), None);
        assert!((0..39).all(|_| watch.observe_failure().is_none()));
        let why = watch.observe_failure().unwrap();
        assert!(why.contains("40 times in a row"), "{why}");
    }

    #[test]
    fn programs_that_count_too_little_are_detected_after_a_minute() {
        let (after, why) = first_reason(80, 100, 50).unwrap();
        assert_eq!(after, 60);
        assert!(
            why.contains("48000 ms of busy CPU time, and /proc/stat 60000 ms"),
            "{why}"
        );
    }

    #[test]
    fn interrupts_of_idle_cpus_are_ignored() {
        let mut watch = Watch::default();
        let seconds = (0..200).map(|number| with_interrupts(number, 10, 130, 50, 120));
        assert!(
            seconds
                .map(|poll| watch.observe(&poll))
                .all(|reason| reason.is_none())
        );
    }

    #[test]
    fn small_differences_and_counting_more_are_ignored() {
        assert_eq!(first_reason(91, 100, 50), None, "within a tenth");
        assert_eq!(first_reason(1, 10, 50), None, "ticks on an idle machine");
        assert_eq!(first_reason(150, 100, 50), None);
    }
}
