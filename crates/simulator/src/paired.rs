//! Compares Headroom with the peak rule and the oracle on the same nodes: share of their gain, excess violations.

use serde::Serialize;

use super::report::{PolicyOutcome, rounded};

/// Headroom compared with another policy at one theta.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PairedRow {
    source: String,
    resource: &'static str,
    name: &'static str,
    /// theta of the other policy; Headroom uses its own.
    theta: f64,
    /// Gain of the other policy over raw, in percent.
    its_requests_gained_pct: f64,
    /// Gain of Headroom in percent of that.
    share_of_gain_pct: f64,
    /// Violations of Headroom minus those of the other policy.
    excess_difference_pct: f64,
    /// Half the 95 % interval of that difference, over groups of nodes and seeds; null if there is only one.
    excess_difference_interval_pct: Option<f64>,
    /// Upper end of that interval.
    excess_difference_most_pct: Option<f64>,
}

impl PairedRow {
    /// Compares `ours` with `other` at a theta, both relative to `raw` with the same seeds.
    pub(super) fn new(
        (source, resource, name): (&str, &'static str, &'static str),
        theta: f64,
        [ours, other, raw]: [&PolicyOutcome; 3],
    ) -> Self {
        let requests = |outcome: &PolicyOutcome| outcome.total().requests_per_allocatable();
        let gained = |outcome: &PolicyOutcome| 100.0 * (requests(outcome) / requests(raw) - 1.0);
        let (difference, interval) = ours.excess(other);
        Self {
            source: source.to_owned(),
            resource,
            name,
            theta,
            its_requests_gained_pct: rounded(gained(other)),
            share_of_gain_pct: rounded(100.0 * gained(ours) / gained(other)),
            excess_difference_pct: rounded(difference),
            excess_difference_interval_pct: interval.map(rounded),
            excess_difference_most_pct: interval.map(|half| rounded(difference + half)),
        }
    }
}
