//! The columns of the comparison: each is a figure that must not be worse than in `off` beyond the noise.

use super::{ModeRun, count};
use crate::{criterion::Criterion, percentile};

/// One column: a figure that each turn of a mode has, and what many turns come to.
///
/// **The noise is the spread of the turns of `off` in the same run**: the greatest less the least. It is never less than the
/// effect of chance on one turn. A mode fails if its mean exceeds that of `off` by more than the noise. If no turn of `off`
/// saw an event that must never happen, a single one is too many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// Its key in the report.
    pub(super) key: &'static str,
    of: fn(&ModeRun) -> f64,
    together: Together,
    better: Better,
    /// What two turns may differ by when nothing is different.
    least_noise: fn(&ModeRun) -> f64,
}

/// What many turns come to.
#[derive(Debug, Clone, Copy)]
enum Together {
    /// For what one turn may see too much of by accident.
    Median,
    /// For events of which each counts.
    Mean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    Less,
    More,
}

impl Column {
    /// Tasks of the probe that are late.
    pub(super) const LATENCY: Self = Self {
        key: "latency_us_p99",
        of: |turn| percentile(&turn.late, 99),
        together: Together::Median,
        better: Better::Less,
        least_noise: |_turn| 0.0,
    };

    /// All columns.
    pub(super) const ALL: [Self; 5] = [
        Self::LATENCY,
        Self::never("oom_kills_per_turn", |turn| count(turn.oom_kills)),
        Self::never("not_ready_nodes_per_turn", |turn| count(turn.not_ready)),
        Self {
            key: "lease_renewals_per_s",
            of: |turn| count(turn.renewals) / turn.seconds,
            together: Together::Mean,
            better: Better::More,
            // Whether a renewal falls into this turn or the next is chance.
            least_noise: |turn| 1.0 / turn.seconds,
        },
        Self::never("rejected_pods_per_turn", |turn| count(turn.rejected)),
    ];

    /// Counts something that must not happen.
    const fn never(key: &'static str, of: fn(&ModeRun) -> f64) -> Self {
        Self {
            key,
            of,
            together: Together::Mean,
            better: Better::Less,
            least_noise: |_turn| 0.0,
        }
    }

    /// What the turns come to; not a number if there are none.
    pub(super) fn figure(&self, turns: &[ModeRun]) -> f64 {
        let each = self.each(turns);
        match self.together {
            Together::Median => median(&each),
            Together::Mean => each.iter().sum::<f64>() / count(each.len()),
        }
    }

    /// How far the turns differ from each other, from the least to the greatest.
    pub(super) fn spread(&self, turns: &[ModeRun]) -> f64 {
        let each = self.each(turns);
        match (each.first(), each.last()) {
            (Some(least), Some(greatest)) => greatest - least,
            (None, _) | (_, None) => f64::NAN,
        }
    }

    /// What must hold of a mode beside `off`.
    pub(super) fn criterion(&self, mode: &str, turns: &[ModeRun], off: &[ModeRun]) -> Criterion {
        let least_noise = off.iter().map(self.least_noise).fold(0.0, f64::max);
        let noise = self.spread(off).max(least_noise);
        let base = self.figure(off);
        Criterion {
            figure: format!("{mode}.{}", self.key),
            measured: self.figure(turns),
            range: match self.better {
                Better::Less => f64::NEG_INFINITY..=base + noise,
                Better::More => base - noise..=f64::INFINITY,
            },
        }
    }

    fn each(&self, turns: &[ModeRun]) -> Vec<f64> {
        let mut each: Vec<f64> = turns.iter().map(self.of).collect();
        each.sort_by(f64::total_cmp);
        each
    }
}

/// The middle of an ascending list, or of its two middle ones.
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

    /// Turns in which all tasks of the probe were that late.
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
    fn latency_may_be_greater_by_what_the_turns_of_off_differ() {
        // Together they come to 110 and are 30 apart.
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
    fn one_event_is_too_many_where_off_had_none() {
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
    fn leases_may_be_fewer_by_one_in_each_turn() {
        let [_, _, _, column, _] = Column::ALL;
        let off = renewing(&[5, 5]);
        assert!(is_met(&column, &renewing(&[9, 9]), &off));
        assert!(is_met(&column, &renewing(&[4, 4]), &off));
        assert!(!is_met(&column, &renewing(&[4, 3]), &off));
    }
}
