//! `Period` collects samples into brake periods, for `EstimatorInputs`. It measures how contended the CPUs and how
//! scarce memory was in each. See docs/estimator.md#brakes.

use std::time::Duration;

use headroom_domain::estimate::{CpuPressure, MemoryPressure, Pressure, Visibility};

use super::{
    cpu_totals::CpuTotals,
    saturation::{PeriodWindows, Saturation},
    wait_coverage::{WaitCoverage, WaitVisibility},
};
use crate::{
    gather::Sample,
    sample::{Origin, clock::nanoseconds, memory::MemoryCounters, psi::Psi, waits::Waits},
};

/// Measurements of one brake period: the pressure to evaluate, and further values for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BrakeInputs {
    pub(super) pressure: Pressure,
    pub(super) burst_ppm: u32,
    /// The busiest 134 ms, in milli-cores; 0 from procfs.
    pub(super) peak_milli: u64,
    pub(super) runq_p50_us: u64,
    /// The least memory that was available to pods, in bytes; `None` if it was not read.
    pub(super) least_available: Option<u64>,
}

/// The period that is under way.
#[derive(Debug)]
pub(super) struct Period {
    /// Half a poll less than a period, as samples come a little early.
    least_ns: u64,
    began: Option<PeriodStart>,
    /// Do the kernel programs count? As of the last poll.
    sees_windows: bool,
    /// Time of the last poll that counted time.
    polled_ns: Option<u64>,
    wait_coverage: WaitCoverage,
    shared_cpus: u32,
    totals: CpuTotals,
    /// Each as many times as it stands for: sampling may have been shed within the period.
    waits: Waits,
    saturation: Saturation,
    /// CPU pressure of the last period in which a poll counted time, and whether its waits were seen.
    last_cpu: (CpuPressure, bool),
    least_available: Option<u64>,
}

/// Counters at the beginning of a period.
#[derive(Clone, Copy, Debug)]
struct PeriodStart {
    at_ns: u64,
    cpu: Option<Psi>,
    memory: MemoryCounters,
}

impl Period {
    /// Periods of this length, of samples that come every `poll`.
    pub(super) fn new(length: Duration, poll: Duration) -> Self {
        Self {
            least_ns: nanoseconds(length.saturating_sub(poll / 2)),
            began: None,
            sees_windows: false,
            polled_ns: None,
            wait_coverage: WaitCoverage::default(),
            shared_cpus: 0,
            totals: CpuTotals::default(),
            waits: Waits::default(),
            saturation: Saturation::default(),
            last_cpu: (CpuPressure::default(), false),
            least_available: None,
        }
    }

    /// Records a sample of a source that sees waits begin or does not; the period's result, if the sample ends it.
    /// An OOM kill ends it at once.
    pub(super) fn observe(
        &mut self,
        sample: &Sample,
        wait_visibility: WaitVisibility,
    ) -> Option<BrakeInputs> {
        if let Some(poll) = &sample.poll {
            self.sees_windows = poll.origin == Origin::Ebpf;
            if poll.covers_time() {
                self.polled_ns = Some(sample.at.monotonic_ns);
            }
            self.shared_cpus = poll.shared_cpus;
            self.totals.add(&CpuTotals::count(poll));
            // On a calm node only waits of preempted tasks are measured, which do not represent the others.
            if wait_visibility != WaitVisibility::Calm {
                self.waits.add(&poll.counts.waits, poll.counts.wait_factor);
            }
            let full = self
                .saturation
                .observe(&poll.counts.windows, poll.cpus, poll.shared_cpus);
            let wait_visibility = if self.sees_windows {
                wait_visibility
            } else {
                WaitVisibility::Partial
            };
            self.wait_coverage.observe(&poll.counts, full, wait_visibility);
        }
        if let Some(meminfo) = &sample.meminfo {
            let available = meminfo.available_to_pods();
            self.least_available = Some(
                self.least_available
                    .map_or(available, |least| least.min(available)),
            );
        }
        let now = PeriodStart {
            at_ns: sample.at.monotonic_ns,
            cpu: sample.cpu_pressure,
            memory: sample.memory_pressure,
        };
        let began = *self.began.get_or_insert(now);
        let elapsed_ns = now.at_ns.saturating_sub(began.at_ns);
        let elapsed = Duration::from_nanos(elapsed_ns);
        let memory = now.memory.since(&began.memory, elapsed);
        let has_killed = memory.node_ooms > 0 || memory.limit_ooms > 0;
        if elapsed_ns < self.least_ns && !has_killed {
            return None;
        }
        // A counter that is unreadable now is measured from its last reading.
        self.began = Some(PeriodStart {
            cpu: now.cpu.or(began.cpu),
            ..now
        });
        let cpu_pressure_ppm = now.cpu.zip(began.cpu).and_then(|(now, then)| {
            let has_gone_back = now.some_us < then.some_us;
            (!has_gone_back).then(|| now.shares_ppm(&then, elapsed).0)
        });
        let seen = self.visibility(&now, &began, cpu_pressure_ppm.is_some());
        Some(self.judge(memory, cpu_pressure_ppm.unwrap_or(0), seen))
    }

    /// Visibility of the period that ends now; the caller adds waits, pods and CPUs.
    fn visibility(&self, now: &PeriodStart, began: &PeriodStart, has_cpu_pressure: bool) -> Visibility {
        // No count for a whole period: an idle node would look the same.
        let is_unpolled = self
            .polled_ns
            .is_none_or(|polled_ns| now.at_ns.saturating_sub(polled_ns) >= self.least_ns);
        Visibility {
            windows: self.sees_windows && !is_unpolled,
            // Pressure counts by how busy the CPUs are.
            cpu_pressure: has_cpu_pressure && !is_unpolled,
            memory_pressure: now.memory.node.is_some(),
            // Pressure that is no longer measured, or went back, is no sign of calm.
            cpu_counters: began.cpu.is_none() || has_cpu_pressure,
            memory_counters: !has_gone(now.memory.node, began.memory.node),
            ..Visibility::ALL
        }
    }

    /// Measurements of the period, with the visibility of waits. The caller adds pods and CPUs.
    fn judge(&mut self, memory: MemoryPressure, some_ppm: u32, seen: Visibility) -> BrakeInputs {
        let PeriodWindows {
            sigma8_ppm,
            peak_milli,
        } = self.saturation.end_period();
        let totals = std::mem::take(&mut self.totals);
        let waits = std::mem::take(&mut self.waits);
        let are_waits_seen = self.wait_coverage.end_period();
        if totals.length_ns() > 0 {
            let busy_ppm = ppm(totals.shared_busiest_milli(), u64::from(self.shared_cpus) * 1000);
            let cpu = CpuPressure {
                sigma8_ppm,
                runq_p99_us: waits.percentile_us(990_000),
                some_ppm,
                busy_ppm,
            };
            self.last_cpu = (cpu, are_waits_seen);
        }
        // An OOM kill may end a period before any counters were due: the CPUs did not come to rest by it.
        let (cpu, are_waits_seen) = self.last_cpu;
        let cpu = CpuPressure { some_ppm, ..cpu };
        let visibility = Visibility {
            waits: are_waits_seen && seen.windows,
            ..seen
        };
        BrakeInputs {
            pressure: Pressure {
                visibility,
                cpu,
                memory,
            },
            burst_ppm: ppm(peak_milli, totals.busy_milli()),
            peak_milli,
            runq_p50_us: waits.percentile_us(500_000),
            least_available: self.least_available.take(),
        }
    }
}

/// Was there pressure then that is not there now, or more of it? Totals only grow.
fn has_gone(now: Option<Psi>, then: Option<Psi>) -> bool {
    let has_less = |now: Psi, then: Psi| now.some_us < then.some_us || now.full_us < then.full_us;
    then.is_some_and(|then| now.is_none_or(|now| has_less(now, then)))
}

/// `part` / `whole` in ppm, 0 without a whole; may be above a million.
pub(super) fn ppm(part: u64, whole: u64) -> u32 {
    let ppm = (u128::from(part) * 1_000_000)
        .checked_div(u128::from(whole))
        .unwrap_or(0);
    u32::try_from(ppm).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use headroom_agent_ebpf::{
        histogram::{BUCKETS, bucket},
        stamp::ticks,
    };

    use super::*;
    use crate::{
        decide::fixtures::{POLL, QUARTER, sample},
        sample::memory::Kills,
    };

    fn period() -> Period {
        Period::new(Duration::from_secs(1), POLL)
    }

    fn with_oom(quarter: u64, oom_kills: u64) -> Sample {
        let kills = Kills {
            node: oom_kills,
            limit: 0,
        };
        Sample {
            memory_pressure: MemoryCounters {
                kills,
                ..MemoryCounters::default()
            },
            ..sample(quarter, 100)
        }
    }

    #[test]
    fn a_period_ends_with_the_sample_that_completes_it() {
        let mut period = period();
        let ended: Vec<_> = (4..=12)
            .filter(|quarter| {
                period
                    .observe(&sample(*quarter, 100), WaitVisibility::All)
                    .is_some()
            })
            .collect();
        assert_eq!(ended, [8, 12]);
    }

    #[test]
    fn a_sample_that_is_half_a_poll_early_ends_a_period() {
        let ends_after = |elapsed_ns: u64| {
            let mut period = period();
            period.observe(&sample(4, 100), WaitVisibility::All);
            let mut early = sample(8, 100);
            early.at.monotonic_ns = 4 * QUARTER + elapsed_ns;
            period.observe(&early, WaitVisibility::All).is_some()
        };
        assert!(ends_after(875_000_000));
        assert!(!ends_after(874_999_999));
    }

    #[test]
    fn an_oom_kill_ends_the_period_at_once() {
        let mut period = period();
        assert_eq!(
            period.observe(&with_oom(4, 3), WaitVisibility::All),
            None,
            "kills of before"
        );
        assert_eq!(period.observe(&with_oom(5, 3), WaitVisibility::All), None);
        assert_eq!(
            period
                .observe(&with_oom(6, 4), WaitVisibility::All)
                .unwrap()
                .pressure
                .memory
                .node_ooms,
            1
        );
        assert_eq!(
            period.observe(&with_oom(7, 4), WaitVisibility::All),
            None,
            "it counts once"
        );
    }

    #[test]
    fn a_period_that_a_kill_ends_early_keeps_the_last_cpu_values() {
        let mut period = period();
        let full = |quarter, kills| Sample {
            poll: sample(quarter, 4000).poll,
            ..with_oom(quarter, kills)
        };
        for quarter in 4..8 {
            assert_eq!(period.observe(&full(quarter, 0), WaitVisibility::All), None);
        }
        let before = period.observe(&full(8, 0), WaitVisibility::All).unwrap().pressure;
        let killed = Sample {
            poll: None,
            ..with_oom(9, 1)
        };
        let after = period.observe(&killed, WaitVisibility::All).unwrap().pressure;
        assert_eq!((after.memory.node_ooms, after.cpu.sigma8_ppm), (1, 1_000_000));
        assert_eq!(
            (after.cpu.busy_ppm, after.visibility.waits),
            (before.cpu.busy_ppm, true)
        );
    }

    #[test]
    fn a_kill_at_the_limit_of_all_pods_ends_the_period_at_once() {
        let mut period = period();
        let with_kill = |quarter, limit| Sample {
            memory_pressure: MemoryCounters {
                kills: Kills { node: 0, limit },
                ..MemoryCounters::default()
            },
            ..sample(quarter, 100)
        };
        assert_eq!(period.observe(&with_kill(4, 3), WaitVisibility::All), None);
        let judged = period.observe(&with_kill(5, 4), WaitVisibility::All).unwrap();
        assert_eq!(judged.pressure.memory.limit_ooms, 1);
    }

    #[test]
    fn counters_that_could_not_be_read_count_later() {
        let mut period = period();
        period.observe(&with_oom(4, 3), WaitVisibility::All);
        // An unreadable value keeps its last state.
        let judged = period.observe(&with_oom(8, 3), WaitVisibility::All).unwrap();
        assert_eq!(judged.pressure.memory, MemoryPressure::default());
        assert_eq!(
            period
                .observe(&with_oom(9, 4), WaitVisibility::All)
                .unwrap()
                .pressure
                .memory
                .node_ooms,
            1
        );
    }

    #[test]
    fn on_procfs_a_period_uses_pressure_and_mean_use() {
        let mut period = period();
        let procfs = |quarter: u64| {
            let mut sample = sample(quarter, 3800);
            sample.poll.as_mut().unwrap().origin = Origin::Procfs;
            sample.cpu_pressure = Some(Psi {
                some_us: quarter * 125_000,
                full_us: 0,
            });
            sample
        };
        let judged = (4..=8)
            .find_map(|quarter| period.observe(&procfs(quarter), WaitVisibility::All))
            .unwrap();
        assert_eq!(
            (judged.pressure.cpu.some_ppm, judged.pressure.cpu.busy_ppm),
            (500_000, 950_000)
        );
        assert_eq!(
            judged.pressure.visibility,
            Visibility {
                memory_pressure: false,
                ..Visibility::PROCFS
            }
        );
    }

    #[test]
    fn zero_pressure_is_visible_and_a_counter_that_went_back_is_not() {
        let judged_after = |some_us: u64| {
            let mut period = period();
            let with = |quarter, some_us| Sample {
                cpu_pressure: Some(Psi { some_us, full_us: 0 }),
                ..sample(quarter, 100)
            };
            period.observe(&with(4, 1_000), WaitVisibility::All);
            let judged = period.observe(&with(8, some_us), WaitVisibility::All).unwrap();
            let is_seen = judged.pressure.visibility.cpu_pressure;
            is_seen.then_some(judged.pressure.cpu.some_ppm)
        };
        assert_eq!(judged_after(1_000), Some(0));
        assert_eq!(judged_after(101_000), Some(100_000));
        assert_eq!(judged_after(999), None);
    }

    #[test]
    fn waits_are_weighted_by_the_sampling_rate_within_a_period() {
        let mut period = period();
        // A thousand waits of 100 us, sampled one in 8, and then one of 900 us, sampled one in 512.
        let with = |quarter, length_ns, count, wait_factor| {
            let mut counts = [0; BUCKETS];
            counts[bucket(ticks(length_ns))] = count;
            let mut sample = sample(quarter, 100);
            let poll = sample.poll.as_mut().unwrap();
            (poll.counts.waits, poll.counts.wait_factor) = (Waits::new(counts), wait_factor);
            sample
        };
        period.observe(&with(4, 100_000, 1000, 8), WaitVisibility::All);
        // Waits of a poll without wake-ups do not count.
        period.observe(&with(5, 900_000, 1_000_000, 8), WaitVisibility::Calm);
        let judged = period
            .observe(&with(8, 900_000, 1, 512), WaitVisibility::All)
            .unwrap();
        assert!(
            (800..=1000).contains(&judged.pressure.cpu.runq_p99_us),
            "{judged:?}"
        );
        assert!((90..=110).contains(&judged.runq_p50_us), "{judged:?}");
    }

    #[test]
    fn kernel_windows_are_evaluated_by_saturation() {
        let mut period = period();
        let judged = (4..=8)
            .find_map(|quarter| period.observe(&sample(quarter, 4000), WaitVisibility::All))
            .unwrap();
        let cpu = judged.pressure.cpu;
        assert!(judged.pressure.visibility.waits, "{judged:?}");
        assert_eq!((cpu.sigma8_ppm, judged.burst_ppm), (1_000_000, 1_000_000));
        assert_eq!(cpu.runq_p99_us, 0);
    }

    #[test]
    fn waits_are_visible_if_they_were_in_half_of_the_saturated_windows() {
        // Quarters of a second that are saturated, and the first of them that sees no wait begin.
        let seen = |saturated: std::ops::Range<u64>, blind_from: u64| {
            let mut period = period();
            let busy = |quarter| if saturated.contains(&quarter) { 4000 } else { 400 };
            let judged = (4..=8)
                .find_map(|quarter| {
                    let wait_visibility = if quarter < blind_from {
                        WaitVisibility::All
                    } else {
                        WaitVisibility::Partial
                    };
                    period.observe(&sample(quarter, busy(quarter)), wait_visibility)
                })
                .unwrap();
            judged.pressure.visibility.waits
        };
        assert!(seen(4..9, 9) && seen(4..9, 7));
        assert!(!seen(4..9, 6) && !seen(6..9, 7));
        assert!(seen(4..6, 6), "nothing was saturated after that");
        assert!(!seen(9..9, 6), "nothing was saturated, nor would waits be seen");
    }

    #[test]
    fn pressure_that_cannot_be_read_or_goes_back_is_not_visible() {
        let judged = |totals: [Option<u64>; 2]| {
            let mut period = period();
            let with = |quarter, total: Option<u64>| {
                let cpu_pressure = total.map(|some_us| Psi { some_us, full_us: 0 });
                Sample {
                    cpu_pressure,
                    ..sample(quarter, 4000)
                }
            };
            period.observe(&with(4, totals[0]), WaitVisibility::All);
            let Pressure { visibility, cpu, .. } = period
                .observe(&with(8, totals[1]), WaitVisibility::All)
                .unwrap()
                .pressure;
            (visibility.cpu_pressure, cpu.some_ppm)
        };
        assert_eq!(judged([Some(100), Some(500_100)]), (true, 500_000));
        assert_eq!(judged([Some(500_100), Some(100)]), (false, 0), "it goes back");
        assert_eq!(judged([None, Some(100)]), (false, 0));
        assert_eq!(judged([Some(100), None]), (false, 0));
    }
}
