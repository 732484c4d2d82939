//! `WaitCoverage` decides for `Period` whether the sampled waits of a period show how long tasks waited. Where CPUs are
//! saturated, unmeasured waits count as long waits, not as none.

use crate::sample::Counts;

/// Minimum number of samples; fewer give no 99th percentile.
const LEAST_SAMPLES: u64 = 100;

/// Visibility of the start of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitVisibility {
    /// The start of every kind of wait is measured.
    All,
    /// Waits that begin with a wake-up are not measured, because no CPU is nearly full; they are as soon as one is.
    Calm,
    /// Some kind of wake-up is not measured, whatever the load.
    Partial,
}

/// Coverage of the waits under saturation in the current period.
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
    /// Number of waits that the ended samples represent.
    measured: u64,
    /// Of those switches, the ones in polls that did not sample every task; and the waits that were sampled then.
    sampled_switches: u64,
    samples: u64,
}

impl WaitCoverage {
    /// Records the counts of a poll with this number of full windows, and its visibility of waits.
    pub(super) fn observe(&mut self, counts: &Counts, full: u64, wait_visibility: WaitVisibility) {
        let windows = u64::try_from(counts.windows.windows.len()).unwrap_or(u64::MAX);
        self.is_last_able = wait_visibility != WaitVisibility::Partial;
        self.full += full;
        if wait_visibility != WaitVisibility::All {
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

    /// True if the waits of the ended period give the length of waits.
    ///
    /// Waits must have been observed in at least half of the saturated windows, so that a tenant who causes them to
    /// be shed for the rest hides nothing, and hooks that are attached when CPUs fill up suffice at once; and three
    /// quarters of the switches under saturation must have ended a measured wait. The others ended waits that began
    /// too early, or of unsampled tasks, whose length is unknown.
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

    /// Poll of 30 windows with this number of switches, of which `samples` ended a sampled wait that represents
    /// `factor`.
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

    /// True if a period of such polls gives the length of waits; each poll has its number of full windows.
    fn reports_waits(polls: &[(Counts, u64)]) -> bool {
        let mut coverage = WaitCoverage::default();
        for (counts, full) in polls {
            coverage.observe(counts, *full, WaitVisibility::All);
        }
        coverage.end_period()
    }

    #[test]
    fn unmeasured_waits_do_not_count_as_short() {
        assert!(reports_waits(&[(counts(100, 75, 1), 30)]));
        assert!(!reports_waits(&[(counts(100, 74, 1), 30)]));
        assert!(
            !reports_waits(&[(counts(1000, 0, 1), 30)]),
            "a thousand waits, none measured"
        );
        assert!(
            reports_waits(&[(counts(0, 0, 1), 30)]),
            "one task per CPU: no task waits"
        );
    }

    #[test]
    fn too_few_samples_give_no_waits() {
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
    fn partly_saturated_polls_do_not_lower_the_coverage() {
        // Half of those switches begin with the idle task.
        assert!(reports_waits(&[
            (counts(1000, 10, 1), 29),
            (counts(100, 100, 1), 30)
        ]));
        assert!(reports_waits(&[(counts(1000, 0, 8), 0)]), "nothing is saturated");
    }

    #[test]
    fn a_calm_node_has_waits_and_a_full_one_has_them_after_one_poll() {
        let says = |polls: &[(u64, WaitVisibility)]| {
            let mut coverage = WaitCoverage::default();
            for &(full, wait_visibility) in polls {
                coverage.observe(&counts(100, 100, 1), full, wait_visibility);
            }
            coverage.end_period()
        };
        assert!(says(&[(0, WaitVisibility::Calm)]), "nothing is saturated");
        assert!(!says(&[(0, WaitVisibility::Partial)]));
        assert!(
            !says(&[(30, WaitVisibility::Calm)]),
            "what filled it was not seen"
        );
        assert!(says(&[(30, WaitVisibility::Calm), (30, WaitVisibility::All)]));
        assert!(!says(&[
            (30, WaitVisibility::Partial),
            (30, WaitVisibility::Partial),
            (30, WaitVisibility::All)
        ]));
    }

    #[test]
    fn a_period_starts_from_zero() {
        let mut coverage = WaitCoverage::default();
        coverage.observe(&counts(100, 0, 1), 30, WaitVisibility::All);
        assert!(!coverage.end_period());
        coverage.observe(&counts(100, 100, 1), 30, WaitVisibility::All);
        assert!(coverage.end_period());
    }
}
