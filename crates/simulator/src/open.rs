//! The open loop: pods are placed as under raw Kubernetes, and every policy predicts the same peak.
//!
//! Policies do not place pods here, so the peak is the same for all; the oracle knows it. The method is that of Bashir
//! et al., EuroSys 2021.

use anyhow::Result;
use serde::Serialize;

use super::{
    closed::Run,
    convert::{long, real},
    figures::DISCARDED,
    node::Node,
    policy::{self, Kind, Policy},
    report::rounded,
};

/// A policy's predictions compared with the actual peaks.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OpenRow {
    source: String,
    resource: &'static str,
    name: String,
    /// Predictions below the peak of the present pods over the next 24 h, in percent.
    oracle_miss_pct: f64,
    /// Prediction divided by that peak, 5th percentile.
    peak_per_oracle_p5: f64,
    peak_per_oracle_p50: f64,
    peak_per_oracle_p95: f64,
    /// Requests that are predicted to stay unused, in percent of all requests.
    requests_unused_pct: f64,
}

/// Sums over predictions; those of several nodes can be added.
#[derive(Debug, Clone, Default)]
pub(super) struct Predictions {
    count: u64,
    misses: u64,
    /// Number of predictions by predicted peak divided by the oracle's, in cents.
    by_cents: Vec<u64>,
    requests: f64,
    unused: f64,
}

impl Predictions {
    fn record(&mut self, node: &Node, predicted: u64) {
        if node.now < DISCARDED || !node.has_a_day_to_come() {
            return;
        }
        let oracle = node.coming_peak();
        self.count += 1;
        self.misses += u64::from(predicted < oracle);
        let cents = usize::try_from(predicted * 100 / oracle.max(1))
            .unwrap_or(usize::MAX)
            .min(999);
        self.by_cents.resize(1000, 0);
        if let Some(count) = self.by_cents.get_mut(cents) {
            *count += 1;
        }
        self.requests += real(node.bound());
        self.unused += real(node.bound() + node.machine.system) - real(predicted);
    }

    /// Adds the predictions of another node or seed.
    pub(super) fn add(&mut self, other: &Self) {
        let Self {
            count,
            misses,
            by_cents,
            requests,
            unused,
        } = other;
        self.count += count;
        self.misses += misses;
        self.by_cents.resize(self.by_cents.len().max(by_cents.len()), 0);
        for (sum, count) in self.by_cents.iter_mut().zip(by_cents) {
            *sum += count;
        }
        self.requests += requests;
        self.unused += unused;
    }

    fn per_oracle(&self, percent: u64) -> f64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let holds = |count: &u64| {
            seen += count;
            seen >= rank
        };
        real(long(self.by_cents.iter().position(holds).unwrap_or_default())) / 100.0
    }

    /// The report's row; `None` for a policy without predictions.
    pub(super) fn row(&self, source: &str, resource: &'static str, name: &str) -> Option<OpenRow> {
        (self.count > 0).then(|| OpenRow {
            source: source.to_owned(),
            resource,
            name: name.to_owned(),
            oracle_miss_pct: rounded(100.0 * real(self.misses) / real(self.count)),
            peak_per_oracle_p5: self.per_oracle(5),
            peak_per_oracle_p50: self.per_oracle(50),
            peak_per_oracle_p95: self.per_oracle(95),
            requests_unused_pct: rounded(100.0 * self.unused / self.requests.max(1.0)),
        })
    }
}

impl Run<'_> {
    /// Predictions of these policies, in their order, over all nodes.
    ///
    /// # Errors
    /// If a thread ended early.
    pub(super) fn predictions(&self, kinds: &[&Kind]) -> Result<Vec<Predictions>> {
        let of_nodes = self.each_node(|node| {
            let mut sums = vec![Predictions::default(); kinds.len()];
            let mut policies: Vec<Box<dyn Policy>> =
                kinds.iter().map(|kind| (kind.build)(&self.settings)).collect();
            self.play(
                node,
                (policy::RAW_KIND.build)(&self.settings).as_mut(),
                |node, _, _| {
                    for (policy, sum) in policies.iter_mut().zip(&mut sums) {
                        policy.allocatable(node);
                        if let Some(predicted) = policy.predicted_peak(node) {
                            sum.record(node, predicted);
                        }
                        policy.end_frame(node);
                    }
                },
            );
            sums
        })?;
        let mut totals = vec![Predictions::default(); kinds.len()];
        for of_node in &of_nodes {
            for (total, sum) in totals.iter_mut().zip(of_node) {
                total.add(sum);
            }
        }
        Ok(totals)
    }
}
