//! `WaitCoverage` decides for `Period` whether the sampled waits of a period show how long tasks waited. Where CPUs are
//! saturated, unmeasured waits count as long waits, not as none.

use crate::sample::Counts;

/// Waits are sampled if so many were; fewer say nothing of a 99th percentile.
const LEAST_SAMPLES: u64 = 100;

/// What is seen of how waits begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    /// The start of every kind of wait.
    Every,
    /// Not that of waits that begin with a wake-up, as no CPU is nearly full; it is seen as soon as one is.
    Calm,
    /// Not that of every kind, whatever the CPUs do.
    Deaf,
}

/// How much was seen of the waits under saturation in the period that is under way.
#[derive(Debug, Default)]
pub(super) struct WaitCoverage {
    /// Windows in which no CPU that pods share was idle.
    full: u64,
    /// Of those, windows of polls that saw waits begin.
    seen: u64,
    /// Did the last poll see waits begin, or would it have if there had been something to see?
    is_last_able: bool,
    /// Switches in polls of which all windows were full: each of them ended a wait.
    switches: u64,
    /// What the sampled waits that ended in them stand for.
    measured: u64,
    /// Of those switches, the ones in polls that did not sample every task; and the waits that were sampled then.
    sampled_switches: u64,
    samples: u64,
}

impl WaitCoverage {
    /// Records the counts of a poll in which so many windows were full, and which saw waits begin or did not.
    pub(super) fn observe(&mut self, counts: &Counts, full: u64, hearing: Hearing) {
        let windows = u64::try_from(counts.windows.windows.len()).unwrap_or(u64::MAX);
        self.is_last_able = hearing != Hearing::Deaf;
        self.full += full;
        if hearing != Hearing::Every {
            return;
        }
        self.seen += full;
        if full == 0 || full < windows {
            return;
        }
        let samples = counts.waits.count();
        self.switches = self.switches.saturating_add(counts.shared_switches);
        self.measured = self
            .measured
            .saturating_add(samples.saturating_mul(counts.wait_factor));
        if counts.wait_factor > 1 {
            self.sampled_switches = self.sampled_switches.saturating_add(counts.shared_switches);
            self.samples = self.samples.saturating_add(samples);
        }
    }

    /// Do the waits of the period that ends say how long tasks waited?
    ///
    /// They do if they were seen in at least half of what was saturated, so that a tenant who has them given up for the rest
    /// hides nothing, and hooks that are attached when CPUs fill up say enough at once; and if three quarters of the switches
    /// under saturation ended a wait that was measured. Those that did not ended waits that began too long ago, or of
    /// tasks that were not sampled, and nobody knows how long they were.
    pub(super) fn end_period(&mut self) -> bool {
        let Self {
            full,
            seen,
            is_last_able,
            switches,
            measured,
            sampled_switches,
            samples,
        } = std::mem::take(self);
        if full == 0 {
            return is_last_able;
        }
        let are_enough = samples >= LEAST_SAMPLES || sampled_switches <= switches / 4;
        let are_measured = are_enough && u128::from(measured) * 4 >= u128::from(switches) * 3;
        seen * 2 >= full && are_measured
    }
}

#[cfg(test)]
mod tests {
    use headroom_agent_ebpf::histogram::BUCKETS;

    use super::*;
    use crate::sample::{Window, Windows, waits::Waits};

    /// A poll of 30 windows with so many switches, of which so many ended a sampled wait that stands for `factor`.
    fn counts(switches: u64, samples: u64, factor: u64) -> Counts {
        let mut waits = [0; BUCKETS];
        waits[40] = samples;
        Counts {
            windows: Windows {
                first: 0,
                windows: vec![Window::default(); 30],
            },
            waits: Waits::new(waits),
            wait_factor: factor,
            shared_switches: switches,
            ..Counts::default()
        }
    }

    /// Whether a period of such polls says how long tasks waited; of each, how many windows were full.
    fn reports_waits(polls: &[(Counts, u64)]) -> bool {
        let mut coverage = WaitCoverage::default();
        for (counts, full) in polls {
            coverage.observe(counts, *full, Hearing::Every);
        }
        coverage.end_period()
    }

    #[test]
    fn waits_that_end_without_having_been_measured_are_not_short_ones() {
        assert!(reports_waits(&[(counts(100, 75, 1), 30)]));
        assert!(!reports_waits(&[(counts(100, 74, 1), 30)]));
        assert!(
            !reports_waits(&[(counts(1000, 0, 1), 30)]),
            "a thousand waits, none measured"
        );
        assert!(
            reports_waits(&[(counts(0, 0, 1), 30)]),
            "one task a CPU: nobody waits"
        );
    }

    #[test]
    fn a_few_samples_say_nothing_of_the_others() {
        assert!(reports_waits(&[(counts(800, 100, 8), 30)]));
        assert!(!reports_waits(&[(counts(792, 99, 8), 30)]));
        assert!(!reports_waits(&[(counts(16_000, 0, 512), 30)]));
        let later_all = [(counts(80, 10, 8), 30), (counts(80, 80, 1), 30)];
        assert!(!reports_waits(&later_all), "half of it is not known");
        assert!(reports_waits(&[
            (counts(80, 10, 8), 30),
            (counts(900, 900, 1), 30)
        ]));
    }

    #[test]
    fn what_is_not_saturated_all_the_time_is_not_counted_against_it() {
        // Half of those switches begin with the idle task.
        assert!(reports_waits(&[
            (counts(1000, 10, 1), 29),
            (counts(100, 100, 1), 30)
        ]));
        assert!(reports_waits(&[(counts(1000, 0, 8), 0)]), "nothing is saturated");
    }

    #[test]
    fn a_calm_node_is_no_blind_one_and_what_fills_it_is_seen_after_one_poll() {
        let says = |polls: &[(u64, Hearing)]| {
            let mut coverage = WaitCoverage::default();
            for &(full, hearing) in polls {
                coverage.observe(&counts(100, 100, 1), full, hearing);
            }
            coverage.end_period()
        };
        assert!(says(&[(0, Hearing::Calm)]), "nothing is saturated");
        assert!(!says(&[(0, Hearing::Deaf)]));
        assert!(!says(&[(30, Hearing::Calm)]), "what filled it was not seen");
        assert!(says(&[(30, Hearing::Calm), (30, Hearing::Every)]));
        assert!(!says(&[
            (30, Hearing::Deaf),
            (30, Hearing::Deaf),
            (30, Hearing::Every)
        ]));
    }

    #[test]
    fn a_period_begins_anew() {
        let mut coverage = WaitCoverage::default();
        coverage.observe(&counts(100, 0, 1), 30, Hearing::Every);
        assert!(!coverage.end_period());
        coverage.observe(&counts(100, 100, 1), 30, Hearing::Every);
        assert!(coverage.end_period());
    }
}
