//! Histograms and time counters for observations counted elsewhere, such as in the kernel. The agent uses them.
//!
//! Many observations are added to a histogram in one step. An ordinary histogram keeps each observation until the
//! next upkeep, which is megabytes at 100,000 observations per second.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{Kind, Metric, Unit};

/// Maximum number of buckets of such a histogram, without the +Inf bucket.
pub const MOST_BUCKETS: usize = 16;

/// Storage for the counts of one histogram or time counter.
#[derive(Debug)]
pub struct Cells {
    /// Observations by bucket; the last used bucket is +Inf.
    counts: [AtomicU64; MOST_BUCKETS + 1],
    /// Sum of all observations in the metric's unit, as the bits of an `f64`.
    sum: AtomicU64,
}

/// Histogram without labels that accepts many observations at once.
#[derive(Debug)]
pub struct CountedHistogram {
    metric: Metric,
    cells: &'static Cells,
}

/// Counter of time without labels, in fractional seconds: an ordinary counter holds whole numbers only.
#[derive(Debug)]
pub struct CountedTime {
    metric: Metric,
    cells: &'static Cells,
}

/// Snapshot of the counts, read without a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Inclusive upper bound and number of observations of each bucket; the last bucket has no bound.
    pub buckets: Vec<(Option<f64>, u64)>,
    /// Sum of all observations, in the metric's unit.
    pub sum: f64,
}

impl Cells {
    /// Creates storage with all counts 0.
    #[expect(clippy::new_without_default, reason = "a static needs a const fn")]
    pub const fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; MOST_BUCKETS + 1],
            sum: AtomicU64::new(0),
        }
    }

    fn add(&self, more: f64) {
        let add = |bits| Some((f64::from_bits(bits) + more).to_bits());
        // Never refused: the closure always returns a value.
        let _before = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Returns the counts for these bucket bounds. A concurrent addition may be visible in part.
    pub(super) fn counted(&self, bounds: &[f64]) -> Counted {
        let bounds = bounds.iter().copied().map(Some).chain([None]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        Counted {
            buckets: bounds.zip(counts).collect(),
            sum: f64::from_bits(self.sum.load(Ordering::Relaxed)),
        }
    }
}

impl CountedHistogram {
    /// Declares a histogram; `buckets` are upper bounds, ascending, without +Inf, at most [`MOST_BUCKETS`]. Each
    /// histogram needs its own cells.
    pub const fn new(
        name: &'static str,
        unit: Unit,
        help: &'static str,
        buckets: &'static [f64],
        cells: &'static Cells,
    ) -> Self {
        let metric = Metric {
            name,
            kind: Kind::Histogram,
            unit,
            labels: &[],
            help,
            buckets,
            cells: Some(cells),
        };
        Self { metric, cells }
    }

    /// Description for catalogues, alerts and dashboards.
    pub const fn metric(&self) -> &Metric {
        &self.metric
    }

    /// Adds `count` observations of this value.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a sum of floats; 53 bits are more than is measured"
    )]
    pub fn add(&self, value: f64, count: u64) {
        let bounds = self.metric.buckets;
        let bucket = bounds.partition_point(|bound| *bound < value);
        if let Some(cell) = self.cells.counts.get(bucket) {
            cell.fetch_add(count, Ordering::Relaxed);
        }
        self.cells.add(value * count as f64);
    }

    /// Returns a snapshot of the counts.
    pub fn counted(&self) -> Counted {
        self.cells.counted(self.metric.buckets)
    }
}

impl CountedTime {
    /// Declares a counter; the name must end in `_seconds_total`. Each counter needs its own cells.
    pub const fn new(name: &'static str, help: &'static str, cells: &'static Cells) -> Self {
        let metric = Metric {
            name,
            kind: Kind::Counter,
            unit: Unit::Seconds,
            labels: &[],
            help,
            buckets: &[],
            cells: Some(cells),
        };
        Self { metric, cells }
    }

    /// Description for catalogues, alerts and dashboards.
    pub const fn metric(&self) -> &Metric {
        &self.metric
    }

    /// Adds a duration with nanosecond resolution.
    pub fn add(&self, time: Duration) {
        self.cells.add(time.as_secs_f64());
    }
}

impl Counted {
    /// Renders the histogram, or the sum if a counter is declared, in the Prometheus text format.
    pub(super) fn text(&self, Metric { name, help, kind, .. }: &Metric) -> String {
        if *kind == Kind::Counter {
            return format!(
                "# HELP {name} {help}\n# TYPE {name} counter\n{name} {}\n\n",
                self.sum
            );
        }
        let mut total = 0_u64;
        let mut lines = vec![
            format!("# HELP {name} {help}"),
            format!("# TYPE {name} histogram"),
        ];
        for (bound, count) in &self.buckets {
            total = total.saturating_add(*count);
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            lines.push(format!("{name}_bucket{{le=\"{bound}\"}} {total}"));
        }
        lines.push(format!("{name}_sum {}", self.sum));
        lines.push(format!("{name}_count {total}\n\n"));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Catalogue;

    #[test]
    fn observations_are_added_in_bulk_and_rendered_in_prometheus_format() {
        static CELLS: Cells = Cells::new();
        static WAITS: CountedHistogram = CountedHistogram::new(
            "headroom_test_waits_seconds",
            Unit::Seconds,
            "Waits.",
            &[0.25, 1.0],
            &CELLS,
        );
        WAITS.add(0.25, 1_000_000);
        WAITS.add(0.5, 2);
        WAITS.add(4.0, 1);
        assert_eq!(
            WAITS.counted(),
            Counted {
                buckets: vec![(Some(0.25), 1_000_000), (Some(1.0), 2), (None, 1)],
                sum: 250_005.0
            }
        );
        let (_, exporter) = Catalogue::new(&[&[WAITS.metric()]]).unwrap().recorder().unwrap();
        let wanted = "# HELP headroom_test_waits_seconds Waits.\n\
                      # TYPE headroom_test_waits_seconds histogram\n\
                      headroom_test_waits_seconds_bucket{le=\"0.25\"} 1000000\n\
                      headroom_test_waits_seconds_bucket{le=\"1\"} 1000002\n\
                      headroom_test_waits_seconds_bucket{le=\"+Inf\"} 1000003\n\
                      headroom_test_waits_seconds_sum 250005\n\
                      headroom_test_waits_seconds_count 1000003\n";
        let text = exporter.render();
        assert!(text.contains(wanted), "{text}");
        assert_eq!(text.matches("# TYPE headroom_test_waits_seconds ").count(), 1);
    }
    #[test]
    fn time_is_summed_and_rendered_in_fractional_seconds() {
        static CELLS: Cells = Cells::new();
        static STALLED: CountedTime =
            CountedTime::new("headroom_test_stalled_seconds_total", "Stalls.", &CELLS);
        STALLED.add(Duration::from_millis(250));
        STALLED.add(Duration::from_secs(3));
        let (_, exporter) = Catalogue::new(&[&[STALLED.metric()]])
            .unwrap()
            .recorder()
            .unwrap();
        let wanted = "# HELP headroom_test_stalled_seconds_total Stalls.\n\
                      # TYPE headroom_test_stalled_seconds_total counter\n\
                      headroom_test_stalled_seconds_total 3.25\n";
        let text = exporter.render();
        assert!(text.contains(wanted), "{text}");
    }
}
