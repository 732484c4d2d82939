//! The report of a run: its parameters and a row for each policy.

use headroom_domain::resource::Resource;
use serde::Serialize;

use super::{
    args::Seeds,
    convert::long,
    figures::{DISCARDED, Figures, mean_and_interval},
    source::GROUP,
};

/// Definition of a violation in the report. The margin uses another one: docs/margin.md.
pub(super) const VIOLATION: &str =
    "F > C, also for memory; margin calibration and advise count memory as short if F > A";

#[derive(Debug, Clone, Serialize)]
pub(super) struct Parameters {
    /// `synthetic`, or the names of trace sets.
    pub(super) source: String,
    pub(super) seed: Seeds,
    pub(super) nodes: u32,
    /// Days, of which the first three do not count.
    pub(super) days: u32,
    /// Days at the start that do not count.
    pub(super) discarded_days: u64,
    /// Coefficient of variation within a frame.
    pub(super) cv: f64,
    pub(super) theta: f64,
    /// True if outcomes calibrate the margin of Headroom's policy.
    pub(super) margin_calibration: bool,
    pub(super) brakes: bool,
    pub(super) lo_cents: u32,
    pub(super) hi_cents: u32,
    pub(super) violation: &'static str,
}

/// Figures of a policy in the closed loop.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct PolicyRow {
    pub(super) source: String,
    pub(super) resource: &'static str,
    pub(super) name: String,
    pub(super) requests_per_allocatable: f64,
    /// Requests in addition to those of raw, in percent.
    pub(super) requests_gained_pct: f64,
    /// Mean use, system included, in percent of capacity.
    pub(super) utilisation_pct: f64,
    /// Frames with F > C, in percent.
    pub(super) violation_pct: f64,
    /// `violation_pct` minus that of raw.
    pub(super) excess_pct: f64,
    /// Half the 95 % interval of the excess, over groups of nodes and seeds; null if there is only one.
    pub(super) excess_interval_pct: Option<f64>,
    /// 5th percentile of the ratio.
    pub(super) ratio_p5: f64,
    pub(super) ratio_p50: f64,
    /// 95th percentile of the ratio.
    pub(super) ratio_p95: f64,
    /// Frames with F > 0.9 C, in percent.
    pub(super) above_90_pct: f64,
    /// Mean excess of F over C in violations, in percent.
    pub(super) severity_pct: f64,
    /// Frames in which the oracle's peak was higher, in percent.
    pub(super) oracle_miss_pct: Option<f64>,
    /// Changes of the ratio per node and day.
    pub(super) ratio_changes_per_day: f64,
}

/// One policy's figures for each node of each seed.
#[derive(Debug, Clone, Default)]
pub(super) struct PolicyOutcome {
    pub(super) seeds: Vec<Vec<Figures>>,
}

impl Parameters {
    /// Days at the start that do not count.
    pub(super) fn discarded() -> u64 {
        long(DISCARDED) / 288
    }
}

impl PolicyOutcome {
    pub(super) fn total(&self) -> Figures {
        let mut total = Figures::default();
        for figures in self.seeds.iter().flatten() {
            total.add(figures);
        }
        total
    }

    /// Violations in percent for each group of nodes that share services, and each seed; these samples are
    /// independent.
    fn of_groups(&self) -> impl Iterator<Item = f64> + '_ {
        let group = usize::try_from(GROUP).unwrap_or(1);
        let sum = |nodes: &[Figures]| {
            let mut sum = Figures::default();
            for node in nodes {
                sum.add(node);
            }
            sum.violation_pct()
        };
        self.seeds
            .iter()
            .flat_map(move |nodes| nodes.chunks(group))
            .map(sum)
    }

    /// Violations beyond those of `raw`, with half the 95 % interval.
    pub(super) fn excess(&self, raw: &Self) -> (f64, Option<f64>) {
        let samples: Vec<f64> = self
            .of_groups()
            .zip(raw.of_groups())
            .map(|(ours, raw)| ours - raw)
            .collect();
        let (_, interval) = mean_and_interval(&samples);
        (
            self.total().violation_pct() - raw.total().violation_pct(),
            interval,
        )
    }

    pub(super) fn row(&self, source: &str, resource: Resource, name: &str, raw: &Self) -> PolicyRow {
        let (figures, of_raw) = (self.total(), raw.total());
        let (excess_pct, excess_interval_pct) = self.excess(raw);
        let gained = figures.requests_per_allocatable() / of_raw.requests_per_allocatable() - 1.0;
        PolicyRow {
            source: source.to_owned(),
            resource: resource.name(),
            name: name.to_owned(),
            requests_per_allocatable: rounded(figures.requests_per_allocatable()),
            requests_gained_pct: rounded(100.0 * gained),
            utilisation_pct: rounded(figures.utilisation_pct()),
            violation_pct: rounded(figures.violation_pct()),
            excess_pct: rounded(excess_pct),
            excess_interval_pct: excess_interval_pct.map(rounded),
            ratio_p5: figures.ratio(5),
            ratio_p50: figures.ratio(50),
            ratio_p95: figures.ratio(95),
            above_90_pct: rounded(figures.above_90_pct()),
            severity_pct: rounded(figures.severity_pct()),
            oracle_miss_pct: figures.oracle_miss_pct().map(rounded),
            ratio_changes_per_day: rounded(figures.changes_per_day()),
        }
    }
}

/// Rounds to four decimals; further digits are noise.
pub(super) fn rounded(value: f64) -> f64 {
    let rounded = (value * 10_000.0).round() / 10_000.0;
    // Avoids negative zero.
    if rounded == 0.0 { 0.0 } else { rounded }
}
