//! `Sampling` chooses the tasks that the kernel programs sample: different ones at every poll. While CPUs are
//! saturated, it keeps the same tasks for as long as waits may last, or samples all where that costs little.

use headroom_agent_ebpf::{
    Config, RQH_GENERATIONS,
    ring::WINDOW_NS,
    stamp::{TICK_SHIFT, elapsed, ticks},
};

use crate::sample::{Counts, FULL_WINDOW_PERCENT};

/// Minimum time for which stamps of the same tasks are used under saturation, so that waits of ten seconds are
/// measured from any start.
const HELD_NS: u64 = 20_000_000_000;
/// Time for which the same tasks stay sampled after the last saturation: a brake period.
const LINGERS_NS: u64 = 10_000_000_000;
/// No CPU switches more often in a second where all tasks are sampled: at 130 ns a switch that is 0.26 % of its time.
const FEW_SWITCHES: u64 = 20_000;

/// Chooses the tasks that are sampled.
#[derive(Debug)]
pub(super) struct Sampling {
    config: Config,
    /// The mask that fits how often CPUs switch, while nothing is saturated.
    mask: u32,
    /// Polls so far, from which salts are made.
    polls: u32,
    /// Start of the current salt, in ticks.
    salt_since: u64,
    held: Option<SampledTasks>,
}

/// State in which the set of sampled tasks stays fixed.
#[derive(Clone, Copy, Debug)]
struct SampledTasks {
    mask: u32,
    /// Until then, in CLOCK_MONOTONIC nanoseconds, unless CPUs are saturated again.
    until_ns: u64,
}

impl Sampling {
    /// One task in 2^`shift`, of programs that were attached at `attached_ns` (CLOCK_MONOTONIC).
    pub(super) const fn new(shift: u32, attached_ns: u64) -> Self {
        let (mask, salt_since) = (mask(shift), ticks(attached_ns));
        let config = Config {
            salt: 0,
            mask,
            hist_idx: 0,
            former_salt: 0,
            since: salt_since,
            trusts_books: 1,
            pad: 0,
        };
        Self {
            config,
            mask,
            polls: 0,
            salt_since,
            held: None,
        }
    }

    pub(super) const fn config(&self) -> Config {
        self.config
    }

    /// Number of tasks that each sampled one represents.
    pub(super) const fn factor(&self) -> u64 {
        self.config.mask as u64 + 1
    }

    /// Samples one task in 2^`shift` from the next poll on; fewer under saturation if CPUs switch often.
    pub(super) const fn sample_one_in(&mut self, shift: u32) {
        self.mask = mask(shift);
    }

    /// Sets if the kernel's accounting of run time is trusted, from the next poll on.
    pub(super) fn trust_books(&mut self, are_kept: bool) {
        self.config.trusts_books = are_kept.into();
    }

    /// Configuration from `now_ns` on: the other histogram, and other tasks unless the same must stay.
    pub(super) fn turn_over(&mut self, now_ns: u64) -> Config {
        self.polls = self.polls.wrapping_add(1);
        self.held = self.held.filter(|held| now_ns < held.until_ns);
        let mask = self.held.map_or(self.mask, |held| held.mask);
        let hist_idx = (self.config.hist_idx + 1) % RQH_GENERATIONS;
        let age_ns = elapsed(self.salt_since, ticks(now_ns)) << TICK_SHIFT;
        if self.held.is_some() && mask == self.config.mask && age_ns < HELD_NS {
            self.config.hist_idx = hist_idx;
            return self.config;
        }
        self.config = Config {
            // Upper bits of multiples of a large odd number: every residue occurs, in an order that load cannot
            // follow.
            salt: self.polls.wrapping_mul(0x9e37_79b1) >> 16 & mask,
            mask,
            hist_idx,
            former_salt: self.config.salt & mask,
            since: self.salt_since,
            ..self.config
        };
        self.salt_since = ticks(now_ns);
        self.config
    }

    /// Records the counts up to `now_ns` on that many CPUs that pods share: if half of the windows or more had no idle
    /// one of them, the same tasks are to stay sampled.
    pub(super) fn judge(&mut self, counts: &Counts, shared_cpus: u32, now_ns: u64) {
        let capacity_ns = u64::from(shared_cpus) * WINDOW_NS;
        let windows = &counts.windows.windows;
        let is_full = |shared_ns: u64| shared_ns * 100 >= capacity_ns * FULL_WINDOW_PERCENT;
        let full = windows
            .iter()
            .filter(|window| is_full(window.shared_busy_ns))
            .count();
        if full == 0 || full * 2 < windows.len() {
            return;
        }
        let length_ns = counts.until_ns.saturating_sub(counts.from_ns).max(1);
        let switches_per_s = u128::from(counts.busiest_switches) * 1_000_000_000 / u128::from(length_ns);
        let mask = if switches_per_s <= u128::from(FEW_SWITCHES) {
            0
        } else {
            self.mask
        };
        self.held = Some(SampledTasks {
            // A load that switches often for a moment may do so again: the sampling does not become finer than
            // before.
            mask: self.held.map_or(mask, |held| held.mask.max(mask)),
            until_ns: now_ns.saturating_add(LINGERS_NS),
        });
    }
}

/// Samples one task in 2^`shift`, at most 2^16.
const fn mask(shift: u32) -> u32 {
    (1 << if shift > 16 { 16 } else { shift }) - 1
}

#[cfg(test)]
mod tests {
    use headroom_agent_ebpf::stamp::pack;

    use super::*;
    use crate::sample::{Window, Windows};

    const QUARTER_NS: u64 = 250_000_000;
    const START_NS: u64 = 1_000_000_000_000;

    /// A quarter of a second in which two shared CPUs were all busy, or not, and the busier one switched so often a second.
    fn counts(is_full: bool, switches_per_s: u64) -> Counts {
        let window = Window {
            shared_busy_ns: if is_full { 2 * WINDOW_NS } else { WINDOW_NS },
            ..Window::default()
        };
        Counts {
            from_ns: 0,
            until_ns: QUARTER_NS,
            windows: Windows {
                first: 0,
                windows: vec![window; 30],
            },
            busiest_switches: switches_per_s / 4,
            ..Counts::default()
        }
    }

    /// Start of the settings of that quarter of a second.
    fn at(quarter: usize) -> u64 {
        ticks(START_NS + (u64::try_from(quarter).unwrap() + 1) * QUARTER_NS)
    }

    /// The settings after each of these quarters of a second.
    fn configs(quarters: impl IntoIterator<Item = (bool, u64)>) -> Vec<Config> {
        let mut sampling = Sampling::new(3, START_NS);
        let mut now_ns = START_NS;
        let mut config = |(is_full, switches): (bool, u64)| {
            now_ns += QUARTER_NS;
            let config = sampling.turn_over(now_ns);
            sampling.judge(&counts(is_full, switches), 2, now_ns);
            config
        };
        quarters.into_iter().map(&mut config).collect()
    }

    #[test]
    fn other_tasks_are_sampled_at_every_poll_while_a_cpu_is_idle() {
        let configs = configs([(false, 1000); 64]);
        let mut salts: Vec<_> = configs.iter().map(|config| config.salt).collect();
        assert!(configs.iter().all(|config| config.mask == 7));
        assert!(
            configs
                .windows(2)
                .all(|pair| pair[0].hist_idx != pair[1].hist_idx)
        );
        salts.sort_unstable();
        salts.dedup();
        assert_eq!(salts.len(), 8, "each has its turn");
    }

    #[test]
    fn under_saturation_all_tasks_are_sampled_and_a_wait_of_ten_seconds_is_believed() {
        let configs = configs([(true, 1000); 160]);
        assert_eq!((configs[0].mask, configs[1].mask), (7, 0));
        assert!(configs[1..].iter().all(|config| config.mask == 0));
        assert!(
            configs
                .windows(2)
                .all(|pair| pair[0].hist_idx != pair[1].hist_idx)
        );
        // Whenever the wait begins, under the settings of its end.
        for begin in 1..119 {
            let stamp = pack(77, at(begin));
            assert!(configs[begin].samples(77));
            let end = begin + 40;
            let waited = configs[end].waited(stamp, 77, at(end));
            assert_eq!(waited, Some(elapsed(at(begin), at(end))), "{begin}");
        }
    }

    #[test]
    fn half_of_the_windows_without_an_idle_cpu_are_saturation() {
        let mask_with = |full: usize| {
            let mut counts = counts(true, 1000);
            for window in &mut counts.windows.windows[full..] {
                window.shared_busy_ns = WINDOW_NS;
            }
            let mut sampling = Sampling::new(3, START_NS);
            sampling.judge(&counts, 2, START_NS);
            sampling.turn_over(START_NS).mask
        };
        assert_eq!([0, 14, 15, 30].map(mask_with), [7, 7, 0, 0]);
    }

    #[test]
    fn where_cpus_switch_often_the_same_tasks_stay_sampled() {
        let configs = configs([(true, 50_000); 160]);
        assert!(configs.iter().all(|config| config.mask == 7));
        let changes = configs.windows(2).filter(|pair| pair[0].salt != pair[1].salt);
        assert!(changes.count() <= 3, "twice in 40 s, and once at the start");
        for begin in 1..119 {
            let pid = 8 + configs[begin].salt;
            let end = begin + 40;
            let config = configs[end];
            assert!(config.watches(pid), "{begin}");
            assert!(
                config.waited(pack(pid, at(begin)), pid, at(end)).is_some(),
                "{begin}"
            );
        }
    }

    #[test]
    fn a_load_that_begins_to_switch_often_is_sampled_less_and_so_is_one_that_does_now_and_then() {
        let masks: Vec<_> = configs([(true, 1000), (true, 50_000), (true, 1000), (true, 1000)])
            .iter()
            .map(|config| config.mask)
            .collect();
        assert_eq!(masks, [7, 0, 7, 7]);
    }

    #[test]
    fn what_was_sampled_under_saturation_stays_so_for_a_brake_period() {
        let quarters = (0..60).map(|quarter| (quarter == 0, 1000));
        let masks: Vec<_> = configs(quarters).iter().map(|config| config.mask).collect();
        let held = masks.iter().filter(|mask| **mask == 0).count();
        assert_eq!((held, masks[0], masks[1], masks[59]), (39, 7, 0, 7));
    }

    #[test]
    fn a_stamp_that_was_left_lying_is_not_believed_when_sampling_changes() {
        // Its task was sampled once and then no longer, so its stamp was not cleared.
        let mut sampling = Sampling::new(3, START_NS);
        let mut now_ns = START_NS;
        let mut next = |sampling: &mut Sampling, is_full: bool| {
            now_ns += QUARTER_NS;
            let config = sampling.turn_over(now_ns);
            sampling.judge(&counts(is_full, 1000), 2, now_ns);
            (config, ticks(now_ns))
        };
        let (left, at) = next(&mut sampling, false);
        let pid = 8 + left.salt;
        let stamp = pack(pid, at);
        let (mut config, mut now) = next(&mut sampling, false);
        while config.watches(pid) {
            (config, now) = next(&mut sampling, false);
        }
        assert_eq!(config.waited(stamp, pid, now), None);
        next(&mut sampling, true);
        for _ in 0..100 {
            let (config, now) = next(&mut sampling, true);
            assert_eq!((config.mask, config.waited(stamp, pid, now)), (0, None));
        }
    }
}
