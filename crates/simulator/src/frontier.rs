//! The frontier of requests against risk: Headroom and the oracle, each run at several values of theta.
//!
//! The other policies are compared with both: at equal capacity, and at equal risk.

use serde::Serialize;

use super::{
    policy::{ORACLE, OURS, PEAK_RULE, RAW, Settings},
    report::{PolicyRow, rounded},
};

/// Values of theta, in ppm. For CPU, T ends at raw allocatable, which is 0.984 of capacity.
const THETAS_PPM: [u32; 7] = [700_000, 750_000, 800_000, 850_000, 900_000, 950_000, 1_000_000];
/// Additional values for the bare peak rule, which has no such end: up to the capacity that other policies advertise.
const BEYOND_PPM: [u32; 7] = [
    1_050_000, 1_100_000, 1_200_000, 1_250_000, 1_300_000, 1_400_000, 1_500_000,
];

/// A policy at one theta.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FrontierRow {
    /// theta of Headroom's policy, or the oracle's share of capacity.
    pub(super) theta: f64,
    #[serde(flatten)]
    pub(super) row: PolicyRow,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct DominanceRow {
    source: String,
    resource: &'static str,
    name: String,
    requests_per_allocatable: f64,
    excess_pct: f64,
    /// The compared form of Headroom: as published, or the bare peak rule beyond its end.
    by: Option<&'static str>,
    /// Excess of that form at the same requests; null if no theta reaches them.
    headroom_excess_pct: Option<f64>,
    /// True if that form violates at most as often at the same requests; null if no theta reaches them.
    headroom_dominates: Option<bool>,
    /// Gain relative to the bare peak rule at the same excess; null if no theta reaches it.
    share_of_peak_rule_pct: Option<f64>,
    /// Gain relative to the oracle at the same excess; null if no theta reaches it.
    share_of_oracle_pct: Option<f64>,
}

/// Requests and excess of one policy's rows, sorted by requests.
fn curve(frontier: &[FrontierRow], name: &str) -> Vec<(f64, f64)> {
    let of_name = frontier.iter().filter(|point| point.row.name == name);
    let mut curve: Vec<(f64, f64)> = of_name
        .map(|point| (point.row.requests_per_allocatable, point.row.excess_pct))
        .collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    curve
}

/// Linear interpolation at `at` between ascending points; `None` outside of them.
fn interpolated(points: &[(f64, f64)], at: f64) -> Option<f64> {
    let mut pairs = points.iter().zip(points.iter().skip(1));
    let (from, to) = pairs.find(|(from, to)| (from.0..=to.0).contains(&at))?;
    let width = to.0 - from.0;
    let part = if width > 0.0 { (at - from.0) / width } else { 0.0 };
    Some(from.1 + part * (to.1 - from.1))
}

/// Excess and requests in ascending order. Where excess stays the same or falls a little while requests grow, only
/// the point with the most requests is kept.
fn by_risk(curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut by_risk: Vec<(f64, f64)> = Vec::new();
    for &(requests, excess) in curve {
        while by_risk.last().is_some_and(|&(last, _)| excess <= last) {
            by_risk.pop();
        }
        by_risk.push((excess, requests));
    }
    by_risk
}

/// Settings for each theta of `along`, or for the built-in values if `along` is empty.
pub(super) fn moved(settings: Settings, name: &str, along: &[u32]) -> impl Iterator<Item = (f64, Settings)> {
    let beyond: &[u32] = if name == PEAK_RULE { &BEYOND_PPM } else { &[] };
    let thetas = match along {
        [] => [&THETAS_PPM, beyond].concat(),
        along => along.to_vec(),
    };
    thetas.into_iter().map(move |ppm| {
        let settings = Settings {
            theta_ppm: ppm,
            oracle_ppm: ppm,
            ..settings
        };
        (f64::from(ppm) / 1e6, settings)
    })
}

/// Compares each policy with Headroom's and the oracle.
pub(super) fn dominance(rows: &[PolicyRow], frontier: &[FrontierRow]) -> Vec<DominanceRow> {
    let ours = [OURS, PEAK_RULE].map(|name| (name, curve(frontier, name)));
    let [oracle, peak_rule] = [ORACLE, PEAK_RULE].map(|name| by_risk(&curve(frontier, name)));
    let of_raw = rows
        .iter()
        .find(|row| row.name == RAW)
        .map_or(0.0, |row| row.requests_per_allocatable);
    let beside = |row: &PolicyRow| {
        let at_its_requests =
            |(name, curve): &(_, Vec<_>)| Some((*name, interpolated(curve, row.requests_per_allocatable)?));
        let there = ours.iter().find_map(at_its_requests);
        let headroom_excess_pct = there.map(|(_, excess)| rounded(excess));
        let share_of = |by_risk: &[(f64, f64)]| {
            let most = interpolated(by_risk, row.excess_pct)?;
            Some(rounded(
                100.0 * (row.requests_per_allocatable - of_raw) / (most - of_raw),
            ))
        };
        DominanceRow {
            source: row.source.clone(),
            resource: row.resource,
            name: row.name.clone(),
            requests_per_allocatable: row.requests_per_allocatable,
            excess_pct: row.excess_pct,
            by: there.map(|(name, _)| name),
            headroom_excess_pct,
            headroom_dominates: headroom_excess_pct.map(|ours| ours <= row.excess_pct),
            share_of_peak_rule_pct: share_of(&peak_rule),
            share_of_oracle_pct: share_of(&oracle),
        }
    };
    let others = rows.iter().filter(|row| row.name != RAW && row.name != ORACLE);
    others.map(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_interpolated_but_not_extrapolated() {
        let points = [(1.0, 0.0), (1.2, 0.4), (1.2, 0.6), (1.4, 1.0)];
        assert!((interpolated(&points, 1.1).unwrap() - 0.2).abs() < 1e-9);
        assert!((interpolated(&points, 1.3).unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(
            (interpolated(&points, 0.9), interpolated(&points, 1.5)),
            (None, None)
        );
    }

    fn row(name: &str, requests: f64, excess: f64) -> PolicyRow {
        PolicyRow {
            name: name.to_owned(),
            requests_per_allocatable: requests,
            excess_pct: excess,
            ..PolicyRow::default()
        }
    }

    #[test]
    fn policies_are_compared_at_equal_capacity_and_equal_risk() {
        let point = |name, requests, excess| FrontierRow {
            theta: 0.9,
            row: row(name, requests, excess),
        };
        let frontier = [
            point(OURS, 1.0, 0.0),
            point(OURS, 1.2, 0.2),
            point(PEAK_RULE, 1.1, 0.3),
            point(PEAK_RULE, 1.3, 0.5),
            point(ORACLE, 1.4, 0.0),
            point(ORACLE, 1.6, 1.0),
        ];
        let rows = [
            row(RAW, 1.0, 0.0),
            row("better", 1.1, 0.05),
            row("worse", 1.1, 0.5),
            row("further", 1.25, 0.7),
            row("out of reach", 1.5, 3.0),
        ];
        let dominance = dominance(&rows, &frontier);
        let verdicts: Vec<_> = dominance
            .iter()
            .map(|row| {
                (
                    row.name.as_str(),
                    row.by,
                    row.headroom_excess_pct,
                    row.headroom_dominates,
                )
            })
            .collect();
        assert_eq!(
            verdicts,
            [
                ("better", Some(OURS), Some(0.1), Some(false)),
                ("worse", Some(OURS), Some(0.1), Some(true)),
                ("further", Some(PEAK_RULE), Some(0.45), Some(true)),
                ("out of reach", None, None, None)
            ]
        );
        // At an excess of 0.5 the oracle has 1.5, so the policy has a fifth of its gain.
        assert_eq!(dominance[1].share_of_oracle_pct, Some(20.0));
    }
}
