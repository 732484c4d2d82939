//! The figures of one policy's run: requests, use, violations, ratios.

use super::{
    convert::{long, real},
    node::Node,
};

/// Frames that do not count: three days, in which nodes fill and policies learn.
pub(super) const DISCARDED: usize = 3 * 288;

/// Sums over frames and nodes; figures of several nodes can be added.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    /// Frames that count, of all nodes.
    pub(super) frames: u64,
    violations: u64,
    above_90: u64,
    /// Sum of F / C - 1 over violations.
    severity: f64,
    /// Sum of R / A.
    requests: f64,
    /// Sum of use, system included, by C.
    used: f64,
    /// Frames whose predicted peak was lower than the oracle's, and frames with a prediction.
    misses: u64,
    predictions: u64,
    /// Frames by ratio in cents.
    ratios: Vec<u64>,
    changes: u64,
    last: Option<u64>,
}

impl Figures {
    /// Adds the current frame. `predicted` is the peak that the policy used.
    pub(super) fn record(&mut self, node: &Node, allocatable: u64, predicted: Option<u64>) {
        if node.now < DISCARDED {
            return;
        }
        let (machine, peak) = (node.machine, node.peak(node.now));
        self.frames += 1;
        if peak > machine.capacity {
            self.violations += 1;
            self.severity += real(peak) / real(machine.capacity) - 1.0;
        }
        self.above_90 += u64::from(peak > machine.capacity * 9 / 10);
        self.requests += real(node.bound()) / real(machine.raw);
        self.used += real(node.used(node.now)) / real(machine.capacity);
        if let Some(predicted) = predicted.filter(|_| node.has_a_day_to_come()) {
            self.predictions += 1;
            self.misses += u64::from(predicted < node.coming_peak());
        }
        let cents = allocatable * 100 / machine.raw;
        self.changes += u64::from(self.last.is_some_and(|last| last != cents));
        self.last = Some(cents);
        let slot = usize::try_from(cents).unwrap_or_default();
        if self.ratios.len() <= slot {
            self.ratios.resize(slot + 1, 0);
        }
        if let Some(count) = self.ratios.get_mut(slot) {
            *count += 1;
        }
    }

    /// Adds the figures of another node or seed.
    pub(super) fn add(&mut self, other: &Self) {
        let Self {
            frames,
            violations,
            above_90,
            severity,
            requests,
            used,
            misses,
            predictions,
            ratios,
            changes,
            last: _,
        } = other;
        self.frames += frames;
        self.violations += violations;
        self.above_90 += above_90;
        self.severity += severity;
        self.requests += requests;
        self.used += used;
        self.misses += misses;
        self.predictions += predictions;
        self.changes += changes;
        if self.ratios.len() < ratios.len() {
            self.ratios.resize(ratios.len(), 0);
        }
        for (sum, count) in self.ratios.iter_mut().zip(ratios) {
            *sum += count;
        }
    }

    fn per_frame(&self, sum: f64) -> f64 {
        sum / real(self.frames.max(1))
    }

    /// Frames with F > C, in percent.
    pub(super) fn violation_pct(&self) -> f64 {
        100.0 * self.per_frame(real(self.violations))
    }

    /// Frames with F > 0.9 C, in percent.
    pub(super) fn above_90_pct(&self) -> f64 {
        100.0 * self.per_frame(real(self.above_90))
    }

    /// Mean excess of F over C in violations, in percent.
    pub(super) fn severity_pct(&self) -> f64 {
        100.0 * self.severity / real(self.violations.max(1))
    }

    pub(super) fn requests_per_allocatable(&self) -> f64 {
        self.per_frame(self.requests)
    }

    /// Mean use divided by C, in percent.
    pub(super) fn utilisation_pct(&self) -> f64 {
        100.0 * self.per_frame(self.used)
    }

    /// Frames in which the oracle's peak was higher, in percent; `None` for a policy without predictions.
    pub(super) fn oracle_miss_pct(&self) -> Option<f64> {
        (self.predictions > 0).then(|| 100.0 * real(self.misses) / real(self.predictions))
    }

    /// Changes of the ratio per node and day.
    pub(super) fn changes_per_day(&self) -> f64 {
        288.0 * self.per_frame(real(self.changes))
    }

    /// Nearest-rank percentile of the ratio.
    pub(super) fn ratio(&self, percent: u64) -> f64 {
        let rank = (self.frames * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let holds = |count: &u64| {
            seen += count;
            seen >= rank
        };
        real(long(self.ratios.iter().position(holds).unwrap_or_default())) / 100.0
    }

    /// Cumulative share of frames by ratio; the index is the ratio in cents.
    pub(super) fn ratio_shares(&self) -> Vec<f64> {
        let mut seen = 0;
        let share = |count: &u64| {
            seen += count;
            self.per_frame(real(seen))
        };
        self.ratios.iter().map(share).collect()
    }
}

/// Mean of independent samples, and half its 95 % interval by Student's t; `None` for fewer than two samples.
pub(super) fn mean_and_interval(samples: &[f64]) -> (f64, Option<f64>) {
    let count = real(long(samples.len()));
    let mean = samples.iter().sum::<f64>() / count.max(1.0);
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let interval = student(samples.len().saturating_sub(1))
        .map(|quantile| quantile * (squares / (count - 1.0) / count).sqrt());
    (mean, interval)
}

/// The 97.5th percentile of Student's t with `freedom` degrees of freedom; in gaps of the table, that of the next
/// lower entry.
fn student(freedom: usize) -> Option<f64> {
    const TABLE: [(usize, f64); 17] = [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (6, 2.447),
        (7, 2.365),
        (8, 2.306),
        (9, 2.262),
        (10, 2.228),
        (12, 2.179),
        (14, 2.145),
        (17, 2.110),
        (20, 2.086),
        (30, 2.042),
        (60, 2.000),
        (120, 1.980),
    ];
    let known = TABLE.iter().rev().find(|&&(at, _)| at <= freedom);
    known.map(|&(_, quantile)| quantile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::node;

    #[test]
    fn the_first_three_days_do_not_count() {
        // F in frames of the second pod: 800 + 20 000 + 23 300, more than 32 000.
        let mut node = node(&[(6300, 0, vec![0; 1000]), (25_200, 865, vec![20_000; 3])]);
        let mut figures = Figures::default();
        for (frame, allocatable) in [(0, 1), (864, 31_500), (865, 34_650), (866, 34_650), (868, 31_500)] {
            node.begin(frame);
            figures.record(&node, allocatable, Some(800));
        }
        assert_eq!((figures.frames, figures.violation_pct()), (4, 50.0));
        assert!((figures.severity_pct() - 100.0 * (44_100.0 / 32_000.0 - 1.0)).abs() < 1e-9);
        let requests = (31_500.0 * 3.0 + 6300.0) / 31_500.0 / 4.0;
        assert!(
            (figures.requests_per_allocatable() - requests).abs() < 1e-9,
            "both pods are bound at once here"
        );
        assert_eq!(
            (figures.ratio(50), figures.ratio(95), figures.changes_per_day()),
            (1.0, 1.1, 144.0)
        );
        assert_eq!(figures.oracle_miss_pct(), Some(75.0));

        let mut twice = figures.clone();
        twice.add(&figures);
        assert_eq!((twice.frames, twice.violation_pct()), (8, 50.0));
    }

    #[test]
    fn intervals_follow_students_t() {
        let (mean, half) = mean_and_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((mean - 3.0).abs() < 1e-9 && (half.unwrap() - 2.776 * 0.5_f64.sqrt()).abs() < 1e-9);
        assert_eq!(mean_and_interval(&[7.0]), (7.0, None));
    }
}
