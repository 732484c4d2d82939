//! Metrics of the bench `node-harm`: in each mode none may be worse than in mode `off` beyond the noise.

use super::ModeRun;
use crate::{
    criterion::Criterion,
    statistics::{as_float, ascending, percentile},
};

/// One metric of each run, aggregated over the runs of a mode.
///
/// **The noise is the spread of the runs of `off` in the same bench**: the highest minus the lowest, but at least the
/// difference that chance causes between two runs. A mode fails if its aggregate exceeds that of `off` by more than the
/// noise. If no run of `off` had an event that must never happen, one such event is a failure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) key: &'static str,
    of: fn(&ModeRun) -> f64,
    aggregate: Aggregate,
    better: Direction,
    /// Difference that chance alone causes between two runs.
    least_noise: fn(&ModeRun) -> f64,
}

#[derive(Debug, Clone, Copy)]
enum Aggregate {
    /// For figures that a single disturbed run may distort.
    Median,
    /// For counts of rare events, in which a single event matters.
    Mean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Less,
    More,
}

impl Column {
    /// Delays of the probe's tasks.
    pub(super) const LATENCY: Self = Self {
        key: "latency_us_p99",
        of: |turn| percentile(&turn.late, 99),
        aggregate: Aggregate::Median,
        better: Direction::Less,
        least_noise: |_turn| 0.0,
    };

    pub(super) const ALL: [Self; 5] = [
        Self::LATENCY,
        Self::never("oom_kills_per_turn", |turn| as_float(turn.oom_kills)),
        Self::never("not_ready_nodes_per_turn", |turn| as_float(turn.not_ready)),
        Self {
            key: "lease_renewals_per_s",
            of: |turn| as_float(turn.renewals) / turn.seconds,
            aggregate: Aggregate::Mean,
            better: Direction::More,
            // By chance, a renewal may fall into the next turn.
            least_noise: |turn| 1.0 / turn.seconds,
        },
        Self::never("rejected_pods_per_turn", |turn| as_float(turn.rejected)),
    ];

    /// A count of events that must not happen.
    const fn never(key: &'static str, of: fn(&ModeRun) -> f64) -> Self {
        Self {
            key,
            of,
            aggregate: Aggregate::Mean,
            better: Direction::Less,
            least_noise: |_turn| 0.0,
        }
    }

    /// Aggregate over the turns; NaN without turns.
    pub(super) fn figure(&self, turns: &[ModeRun]) -> f64 {
        let each = self.each(turns);
        match self.aggregate {
            Aggregate::Median => median(&each),
            Aggregate::Mean => each.iter().sum::<f64>() / as_float(each.len()),
        }
    }

    /// Highest minus lowest value of a turn; NaN without turns.
    pub(super) fn spread(&self, turns: &[ModeRun]) -> f64 {
        let each = self.each(turns);
        match (each.first(), each.last()) {
            (Some(least), Some(greatest)) => greatest - least,
            (None, _) | (_, None) => f64::NAN,
        }
    }

    /// The criterion of a mode compared with `off`.
    pub(super) fn criterion(&self, mode: &str, turns: &[ModeRun], off: &[ModeRun]) -> Criterion {
        let least_noise = off.iter().map(self.least_noise).fold(0.0, f64::max);
        let noise = self.spread(off).max(least_noise);
        let base = self.figure(off);
        Criterion {
            figure: format!("{mode}.{}", self.key),
            measured: self.figure(turns),
            range: match self.better {
                Direction::Less => f64::NEG_INFINITY..=base + noise,
                Direction::More => base - noise..=f64::INFINITY,
            },
        }
    }

    fn each(&self, turns: &[ModeRun]) -> Vec<f64> {
        ascending(turns.iter().map(self.of))
    }
}

/// The middle of an ascending list, or the mean of its two middle values; NaN if empty.
fn median(ascending: &[f64]) -> f64 {
    let half = ascending.len() / 2;
    match (
        ascending.get(ascending.len().saturating_sub(1) / 2),
        ascending.get(half),
    ) {
        (Some(lower), Some(upper)) => f64::midpoint(*lower, *upper),
        (None, _) | (_, None) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns in which all tasks of the probe had these delays.
    fn late(each: &[f64]) -> Vec<ModeRun> {
        let turn = |late: &f64| ModeRun {
            seconds: 10.0,
            late: vec![*late; 100],
            ..ModeRun::default()
        };
        each.iter().map(turn).collect()
    }

    fn renewing(each: &[usize]) -> Vec<ModeRun> {
        let turn = |renewals: &usize| ModeRun {
            seconds: 10.0,
            renewals: *renewals,
            ..ModeRun::default()
        };
        each.iter().map(turn).collect()
    }

    fn is_met(column: &Column, turns: &[ModeRun], off: &[ModeRun]) -> bool {
        column
            .criterion("auto", turns, off)
            .to_string()
            .starts_with("PASS")
    }

    #[test]
    fn latency_may_exceed_off_by_the_spread_of_its_turns() {
        // Their median is 110, their spread 30.
        let off = late(&[130.0, 100.0, 105.0, 115.0]);
        for (turns, is_fine) in [
            (&[50.0, 60.0, 70.0][..], true),
            (&[139.0, 140.0, 900.0], true),
            (&[100.0, 141.0, 141.0], false),
            (&[], false),
        ] {
            assert_eq!(is_met(&Column::LATENCY, &late(turns), &off), is_fine, "{turns:?}");
        }
        assert!(!is_met(&Column::LATENCY, &late(&[1.0]), &[]));
    }

    #[test]
    fn one_event_fails_if_off_had_none() {
        let turns = |rejected: [usize; 3]| {
            rejected.map(|rejected| ModeRun {
                rejected,
                ..ModeRun::default()
            })
        };
        let [_, _, _, _, column] = Column::ALL;
        assert!(is_met(&column, &turns([0, 0, 0]), &turns([0, 0, 0])));
        assert!(!is_met(&column, &turns([0, 1, 0]), &turns([0, 0, 0])));
        assert!(is_met(&column, &turns([1, 1, 0]), &turns([0, 1, 0])));
    }

    #[test]
    fn one_renewal_less_per_turn_is_noise() {
        let [_, _, _, column, _] = Column::ALL;
        let off = renewing(&[5, 5]);
        assert!(is_met(&column, &renewing(&[9, 9]), &off));
        assert!(is_met(&column, &renewing(&[4, 4]), &off));
        assert!(!is_met(&column, &renewing(&[4, 3]), &off));
    }
}
