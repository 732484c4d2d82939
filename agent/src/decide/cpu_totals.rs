//! `CpuTotals` adds up the CPU counts of consecutive polls. The sums become seconds of demand in frames, figures in
//! `/status`, and values in reports.

use crate::sample::{Poll, StatSpan};

/// CPU counts of one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTotals {
    /// Start of the counts, in CLOCK_MONOTONIC nanoseconds.
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) switches: u64,
    pub(super) lost_windows: u64,
    busy_ns: u64,
    /// Of that, time of the CPUs that pods share.
    shared_busy_ns: u64,
    wait_ns: u64,
    /// CPU time that pods with CPUs of their own left unused.
    unused_ns: u64,
    /// `/proc/stat` is read at times of its own, and not by every poll.
    stat: Option<StatSpan>,
}

impl CpuTotals {
    /// The counts of one poll.
    pub(super) const fn count(poll: &Poll) -> Self {
        let counts = &poll.counts;
        Self {
            from_ns: counts.from_ns,
            until_ns: counts.until_ns,
            switches: counts.switches,
            lost_windows: counts.lost_windows,
            busy_ns: counts.busy_ns,
            shared_busy_ns: counts.shared_busy_ns,
            wait_ns: counts.wait_ns,
            unused_ns: 0,
            stat: poll.stat,
        }
    }

    /// Adds CPU time that pods with CPUs of their own left unused.
    pub(super) const fn add_unused(&mut self, unused_ns: u64) {
        self.unused_ns = self.unused_ns.saturating_add(unused_ns);
    }

    /// Adds the stretch that follows.
    pub(super) fn add(&mut self, next: &Self) {
        if self.length_ns() == 0 {
            self.from_ns = next.from_ns;
        }
        self.until_ns = next.until_ns;
        for (sum, more) in [
            (&mut self.switches, next.switches),
            (&mut self.lost_windows, next.lost_windows),
            (&mut self.busy_ns, next.busy_ns),
            (&mut self.shared_busy_ns, next.shared_busy_ns),
            (&mut self.wait_ns, next.wait_ns),
            (&mut self.unused_ns, next.unused_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.stat = match (self.stat, next.stat) {
            (Some(mut sum), Some(more)) => {
                sum.elapsed_ns = sum.elapsed_ns.saturating_add(more.elapsed_ns);
                sum.shared_busy_ns = sum.shared_busy_ns.saturating_add(more.shared_busy_ns);
                sum.time.busy_ns = sum.time.busy_ns.saturating_add(more.time.busy_ns);
                sum.time.steal_ns = sum.time.steal_ns.saturating_add(more.time.steal_ns);
                sum.time.irq_ns = sum.time.irq_ns.saturating_add(more.time.irq_ns);
                sum.time.idle_ns = sum.time.idle_ns.saturating_add(more.time.idle_ns);
                Some(sum)
            }
            (one, other) => one.or(other),
        };
    }

    pub(super) const fn length_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }

    /// Busy CPUs by the source, stolen time included, in milli-cores.
    pub(super) fn busy_milli(&self) -> u64 {
        per(self.busy_ns, 1000, self.length_ns())
    }

    pub(super) fn steal_milli(&self) -> u64 {
        self.stat
            .map_or(0, |span| per(span.time.steal_ns, 1000, span.elapsed_ns))
    }

    /// Busy CPUs by the source, without its stolen time, in milli-cores: the time of tasks.
    ///
    /// The hypervisor steals from running tasks, which the source counts as busy, and by waking an idle CPU late,
    /// which it counts as idle. The shares are unknown, so stolen time is divided by the busy share that the source
    /// measured: `/proc/stat` counts ticks, and those of stolen time as busy.
    pub(super) fn used_milli(&self) -> u64 {
        let busy = self.busy_milli();
        let online = self.stat.map_or(0, |StatSpan { time, elapsed_ns, .. }| {
            per(time.busy_ns.saturating_add(time.idle_ns), 1000, elapsed_ns)
        });
        let stolen = per(self.steal_milli(), busy.min(online), online);
        busy.saturating_sub(stolen)
    }

    pub(super) fn switches_per_s(&self) -> u64 {
        per(self.switches, 1_000_000_000, self.length_ns())
    }

    /// b_s, in milli-cores: the larger of the source's and `/proc/stat`'s value. The source misses interrupts of idle
    /// CPUs, and `/proc/stat` has a resolution of ticks; use must not be reported too low.
    pub(super) fn busiest_milli(&self) -> u64 {
        let by_stat = self
            .stat
            .map_or(0, |span| per(span.time.busy_ns, 1000, span.elapsed_ns));
        self.busy_milli().max(by_stat)
    }

    /// Busiest value of the CPUs that pods share, in milli-cores.
    pub(super) fn shared_busiest_milli(&self) -> u64 {
        let by_stat = self
            .stat
            .map_or(0, |span| per(span.shared_busy_ns, 1000, span.elapsed_ns));
        per(self.shared_busy_ns, 1000, self.length_ns()).max(by_stat)
    }

    /// d_s, in milli-cores: demand on that many CPUs, at most twice their capacity. Requests of pods with exclusive
    /// CPUs count as busy. Waiting counts only from 97 % on: below, tasks wait at their quota. See
    /// docs/estimator.md#frames.
    pub(super) fn demand_milli(&self, cpus: u32) -> u64 {
        let capacity = u64::from(cpus) * 1000;
        let unused = per(self.unused_ns, 1000, self.length_ns());
        let busy = self.busiest_milli().saturating_add(unused);
        if busy.saturating_mul(1000) < capacity * 970 {
            busy
        } else {
            busy.saturating_add(per(self.wait_ns, 1000, self.length_ns()))
                .min(capacity * 2)
        }
    }
}

/// `amount` × `unit` / `elapsed_ns`, rounded down.
fn per(amount: u64, unit: u64, elapsed_ns: u64) -> u64 {
    let product = u128::from(amount) * u128::from(unit);
    u64::try_from(product / u128::from(elapsed_ns.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::procfs::CpuTime;

    const MS: u64 = 1_000_000;

    fn tally(busy_ms: u64, wait_ms: u64) -> CpuTotals {
        let (busy_ns, wait_ns) = (busy_ms * MS, wait_ms * MS);
        CpuTotals {
            from_ns: 5,
            until_ns: 5 + 1000 * MS,
            busy_ns,
            wait_ns,
            ..CpuTotals::default()
        }
    }

    fn stat(busy_ms: u64, steal_ms: u64, elapsed_ms: u64) -> StatSpan {
        let time = CpuTime {
            busy_ns: busy_ms * MS,
            steal_ns: steal_ms * MS,
            irq_ns: 0,
            idle_ns: 0,
        };
        StatSpan {
            elapsed_ns: elapsed_ms * MS,
            time,
            shared_busy_ns: time.busy_ns,
        }
    }

    #[test]
    fn waiting_counts_only_when_the_cpus_are_nearly_all_busy() {
        assert_eq!(
            tally(3879, 9000).demand_milli(4),
            3879,
            "a quota makes tasks wait on an idle node"
        );
        assert_eq!(tally(3880, 1000).demand_milli(4), 4880);
        assert_eq!(
            tally(4000, 9000).demand_milli(4),
            8000,
            "at most twice the capacity"
        );
    }

    #[test]
    fn the_larger_of_both_counts_is_demand() {
        let with = |stat| {
            CpuTotals {
                stat,
                ..tally(500, 0)
            }
            .demand_milli(4)
        };
        assert_eq!(with(Some(stat(700, 0, 1000))), 700);
        assert_eq!(with(Some(stat(400, 0, 1000))), 500);
        assert_eq!(with(None), 500);
    }

    #[test]
    fn idle_exclusive_cpus_are_demand_and_not_use() {
        let mut tally = tally(500, 9000);
        tally.add_unused(1500 * MS);
        assert_eq!((tally.demand_milli(4), tally.busy_milli()), (2000, 500));
        tally.add_unused(1900 * MS);
        assert_eq!(tally.demand_milli(4), 8000, "others wait for what is left");
    }

    #[test]
    fn stolen_time_is_part_of_demand_and_not_of_use() {
        let tally = CpuTotals {
            stat: Some(stat(1000, 300, 1000)),
            ..tally(1000, 0)
        };
        assert_eq!(
            (tally.used_milli(), tally.steal_milli(), tally.demand_milli(4)),
            (700, 300, 1000)
        );
        let all = CpuTotals {
            stat: Some(stat(1000, 2000, 1000)),
            ..tally
        };
        assert_eq!(all.used_milli(), 0);
    }

    #[test]
    fn late_wake_ups_are_not_subtracted_from_use() {
        let mut mostly_idle = stat(1000, 400, 1000);
        mostly_idle.time.idle_ns = 3000 * MS;
        let tally = CpuTotals {
            stat: Some(mostly_idle),
            ..tally(1000, 0)
        };
        assert_eq!((tally.used_milli(), tally.steal_milli()), (900, 400));

        let mut ticks_stolen_too = stat(800, 400, 1000);
        ticks_stolen_too.time.idle_ns = 1200 * MS;
        let tally = CpuTotals {
            stat: Some(ticks_stolen_too),
            ..self::tally(400, 0)
        };
        assert_eq!(tally.used_milli(), 320, "the share that the source saw busy");
    }

    #[test]
    fn sums_are_means_over_the_whole_stretch() {
        let mut sum = CpuTotals::default();
        sum.add(&CpuTotals {
            stat: Some(stat(10, 10, 100)),
            switches: 600,
            ..tally(1000, 0)
        });
        let next = CpuTotals {
            from_ns: sum.until_ns,
            until_ns: sum.until_ns + 3000 * MS,
            ..tally(1000, 0)
        };
        sum.add(&CpuTotals {
            stat: None,
            switches: 1000,
            ..next
        });
        assert_eq!((sum.from_ns, sum.length_ns()), (5, 4000 * MS));
        assert_eq!(
            (sum.busy_milli(), sum.steal_milli(), sum.switches_per_s()),
            (500, 100, 400)
        );
    }

    #[test]
    fn without_counts_nothing_is_used() {
        assert_eq!(CpuTotals::default().demand_milli(0), 0);
        assert_eq!(
            (
                CpuTotals::default().used_milli(),
                CpuTotals::default().switches_per_s()
            ),
            (0, 0)
        );
    }
}
